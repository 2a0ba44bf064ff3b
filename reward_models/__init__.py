"""Process reward models: from frames to progress and success. They score; they never decide what is executed."""
