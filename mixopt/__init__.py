"""Decide what a language model is trained on, for how long, at which batch size and learning rate."""

from mixopt.corpora import Corpus as Corpus
from mixopt.corpora import read_corpus as read_corpus
from mixopt.errors import EmitError as EmitError
from mixopt.errors import FitError as FitError
from mixopt.errors import InfeasibleError as InfeasibleError
from mixopt.errors import RunsError as RunsError
from mixopt.errors import StudyError as StudyError
from mixopt.fit.fit import Fit as Fit
from mixopt.fit.fit import fit as fit
from mixopt.fit.holdout import compare as compare
from mixopt.fit.norms import Huber as Huber
from mixopt.fit.norms import Square as Square
from mixopt.fit.select import select as select
from mixopt.laws.law import Coefficient as Coefficient
from mixopt.laws.law import Law as Law
from mixopt.optimize.plan import Plan as Plan
from mixopt.optimize.problem import Problem as Problem
from mixopt.optimize.problem import Target as Target
from mixopt.optimize.slsqp import slsqp as slsqp
from mixopt.recipe import Recipe as Recipe
from mixopt.runs import Runs as Runs
from mixopt.schedules.schedule import Schedule as Schedule
from mixopt.schedules.schedule import Segment as Segment
from mixopt.study import Study as Study
