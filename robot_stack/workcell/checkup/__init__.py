"""What `robot-stack doctor` judges: findings about host, graph, streams, links and operator."""
