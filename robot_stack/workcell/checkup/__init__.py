"""The judgements of `robot-stack doctor`: findings about host, graph, streams, links and operator."""
