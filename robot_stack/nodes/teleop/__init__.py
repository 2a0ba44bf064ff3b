"""The process of one teleop device, and the scripted operator in its place."""
