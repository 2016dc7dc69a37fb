"""Errors that a caller may want to catch. Each message says what was given, what is accepted and what to do."""


class StudyError(ValueError):
    """The study, or a file that it names, cannot be used as it stands."""


class RunsError(ValueError):
    """A table of runs breaks the contract of its columns."""


class FitError(ValueError):
    """A law cannot be fitted to these runs."""


class InfeasibleError(ValueError):
    """No recipe satisfies the constraints of the problem."""


class EmitError(ValueError):
    """A training stack cannot express this recipe."""
