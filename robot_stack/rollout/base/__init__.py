"""Base policies from elsewhere: asked beside the control loop, their proposals are part of what the cell observes."""
