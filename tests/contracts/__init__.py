"""What every likelihood, kernel, kind of rows and prior must do.

A new one is tested by describing it in a case; ``pytest.mark.parametrize`` runs the list of checks over it:

    @pytest.mark.parametrize("check", contracts.LIKELIHOOD, ids=contracts.name)
    def test_contract(check):
        check(contracts.LikelihoodCase(MyLikelihood()))
"""

from contracts.common import name, random_belief
from contracts.kernels import (
    KERNEL,
    KernelCase,
    equals_the_kernel_of_scikit_learn,
    gram_is_a_covariance,
    kernel_agrees_in_torch_and_in_single_precision,
    pullbacks_are_finite_differences,
    theta_makes_a_round_trip,
)
from contracts.likelihoods import (
    LIKELIHOOD,
    LikelihoodCase,
    bound_lies_below_the_expectation,
    bound_touches_where_nothing_is_uncertain,
    curvature_is_the_slope_of_the_slope,
    labels_are_symmetric,
    sites_agree_in_torch_and_in_single_precision,
    sites_are_finite_and_precisions_not_negative,
    slopes_are_finite_differences,
)
from contracts.priors import (
    PRIOR,
    PriorCase,
    _sums,
    divergence_equals_the_naive_one,
    prior_agrees_in_torch,
    start_is_a_finite_belief,
    update_maximises_the_objective_of_fixed_sites,
    update_never_descends,
)
from contracts.rows import (
    ROWS,
    RowsCase,
    gather_equals_loops,
    moments_equal_loops,
    parts_add_up_to_the_whole,
    rows_agree_in_torch_and_in_single_precision,
)
from softmargin.arrays import to_numpy
