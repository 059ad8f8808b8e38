"""The exit statuses of the command line, and what each means."""

OK, REFUSED, USAGE, REGRESSED, INCONCLUSIVE, INTERRUPTED = 0, 1, 2, 3, 4, 130

MEANINGS = {
    OK: "done; of gate: no kernel is slower than allowed",
    REFUSED: "refused, with what happened, why and what to do",
    USAGE: "the command line was not understood",
    REGRESSED: "gate: a limit is exceeded",
    INCONCLUSIVE: "gate: not decided, by noise or because the two cannot be compared",
    INTERRUPTED: "interrupted by Ctrl-C",
}
