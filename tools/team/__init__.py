"""What a team does with its workloads: choose, move, keep or delete them, and follow a kernel over commits."""
