"""What holds a kernel back: declarative rules over metrics, a scorer that ranks them, and what would make it surer."""
