"""What a recipe hands to DeepSpeed as it is gets refused before a model loads, where DeepSpeed would refuse it."""

import pytest

from adarl.config import LearnerSettings
from adarl.errors import UserError
from adarl.ranks import check_deepspeed


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"zero_optimization": 5}, "must be a mapping, not int"),
        ({"zero_optimization": {"nonsense": 1}}, "nonsense: Extra inputs are not permitted"),
        (
            {"zero_optimization": {"reduce_bucket_size": "a"}},
            "reduce_bucket_size: Input should be a valid integer",
        ),
    ],
)
def test_what_deepspeed_does_not_take_is_one_sentence(given, sentence):
    with pytest.raises(UserError, match="^learner.deepspeed = .*: DeepSpeed does not take it") as caught:
        check_deepspeed(LearnerSettings(deepspeed=given))
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_deepspeed_takes_passes():
    check_deepspeed(LearnerSettings(deepspeed={"zero_optimization": {"reduce_bucket_size": 1000}}))
