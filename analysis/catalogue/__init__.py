"""What is known beforehand: targets, products, metrics, work and rules, each with its data files."""
