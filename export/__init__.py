"""Exporter: trained weights to a policy bundle (ONNX graphs, parity, contract), and the demo."""
