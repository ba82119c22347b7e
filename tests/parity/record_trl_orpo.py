"""Runs of TRL's ORPOTrainer on CPU in fp32, step by step: FIXTURES/trl_orpo/<case>.json and <case>.safetensors.
usage: record_trl_orpo.py [--only PREFIX] [--out FOLDER]

Model, data and files are those of record_trl_cpo.py."""
from record_trl_cpo import SHARED, main, shared_cases

from trl.experimental.orpo import ORPOConfig, ORPOTrainer


def orpo_cases():
    """name -> (data, a new adapter?, options)"""
    cases = {}

    def case(name, data="explicit", new=False, **options):
        cases[name] = (data, new, {**SHARED, **options})

    case("or")
    case("strong", beta=5.0)
    shared_cases(case)
    return cases


main(orpo_cases(), ORPOConfig, ORPOTrainer, "trl_orpo", __doc__)
