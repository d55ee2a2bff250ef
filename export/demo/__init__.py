"""The whole path on one computer, shown: train, export, walk under ROS 2."""
