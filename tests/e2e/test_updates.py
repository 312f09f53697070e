"""However a batch is cut, the update is the same; an update that is not finite changes nothing."""

import pytest
import torch

from tests.e2e import runs
from tests.e2e.test_schedules import last_line

PYTHON = ("python", "-m")
TWO_RANKS = ("deepspeed", "--num_accelerators", "2", "--module")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """What tests/e2e/updates.py says, with its gradients, by ZeRO stage and ranks."""
    folder, found = tmp_path_factory.mktemp("updates"), {}
    for key, launcher in {(3, 1): PYTHON, (3, 2): TWO_RANKS, (0, 1): PYTHON}.items():
        file = folder / f"{key[0]}-{key[1]}.pt"
        said = last_line(runs.run(*launcher, "tests.e2e.updates", str(key[0]), str(file)))
        found[key] = said | {"gradients": torch.load(file)}
    return found


def test_one_microbatch_several_two_ranks_padded_rows_and_no_zero_give_the_same_loss_and_gradients(outcomes):
    first = outcomes[3, 1]
    expected, gradients = first["results"]["whole"], first["gradients"]["whole"]
    assert 0.05 < expected["update/clipped_share"] < 0.95  # the case is no trivial one
    assert abs(expected["update/loss"]) > 0.01
    assert max(float(g.abs().max()) for g in gradients.values()) > 0.001
    assert first["results"]["cut"]["of"] >= 4
    assert outcomes[3, 2]["results"]["cut"]["of"] >= 2
    of_ranks = outcomes[3, 2]["chunks"]
    assert of_ranks[0] != of_ranks[1]  # as many gathers of the head's weight all the same
    for said in outcomes.values():
        for name, result in said["results"].items():
            for key in ("loss", "entropy", "ratio", "clipped_share", "approx_kl", "grad_norm", "loss_tokens"):
                assert result[f"update/{key}"] == pytest.approx(expected[f"update/{key}"], rel=2e-5), key
            for parameter, gradient in said["gradients"][name].items():
                torch.testing.assert_close(gradient, gradients[parameter], rtol=1e-4, atol=2e-6)


def test_an_update_that_is_not_finite_is_skipped_on_every_rank_and_counted(outcomes):
    for said in outcomes.values():
        assert said["skipped"] == [{}, 1, {}, 2]
        assert said["same"] is True  # weights, optimizer, schedule and policy version
        assert said["left"] == 0  # a good one sets the count back
