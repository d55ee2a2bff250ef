"""Walking policies of others: readers of their formats, one graph, parity, and a trial."""
