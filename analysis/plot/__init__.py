"""Pictures of analyses, drawn with matplotlib's figures alone: no pyplot, no state that outlives a call."""
