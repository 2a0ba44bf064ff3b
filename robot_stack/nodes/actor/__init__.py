"""Processes that run a control loop: the cell over DDS on one side, learner or store on the other."""
