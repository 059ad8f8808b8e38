"""Down to the source line: which lines and instructions cost the time, why they wait, and for what."""
