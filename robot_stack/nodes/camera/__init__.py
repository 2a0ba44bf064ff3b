"""The process of one camera: simulated, read here, or passed through from its driver."""
