"""The safety filter: who may command an arm, and how its commands are limited."""
