"""The verbs that look at a real cell: doctor, calibrate, camera, foxglove."""
