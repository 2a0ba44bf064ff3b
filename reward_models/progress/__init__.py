"""The embedded progress model: trained on the demonstrations in minutes, scores a frame in about a millisecond."""
