"""Demo: train, export and walk under ROS 2, on one computer."""
