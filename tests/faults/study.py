"""The silent training errors that TrainCheck's study reproduced (OrderLab/TrainCheck, OSDI 2025; its evaluation workloads), each
with what becomes of it in hone: named by a check that a case of tests/faults shows, or impossible, with the test that proves it.
The study has 20; listed are the 18 of its artifact, and transformers#33455, one of the two that its tool did not find.
"""

# id, what went wrong, named or impossible, why, the case's code or the test
STUDY = [
    ("baichuan2#86", "values are lost between two GPUs", "impossible",
     "one process holds the model once, and its bits are compared at the end (NUM-06)",
     "tests/train/sft_equivalence_test.cpp SftEquivalence.FrozenWeightsKeepTheirBits"),
    ("deepspeed#1801", "clipping lets the ranks' weights diverge (BLOOM-176B)", "impossible",
     "one flat buffer of gradients is clipped once", "tests/learn/adamw_test.cpp Clip.EveryElementCountsOnce"),
    ("deepspeed#5794", "experts of several workers wait for each other", "impossible",
     "each process holds all experts, and none waits for another's",
     "tests/model/moe_test.cpp Experts.ARowAloneHasTheSameBits"),
    ("lightning-thunder#725", "autocast leaves out linears after a compiler's change", "named",
     "dtypes are fixed when the model is read; each product is compared with fp32", "NUM-04"),
    ("mmpretrain#702", "frozen stages are trained until the second epoch", "named", "the trainable elements are counted exactly", "GRAD-04"),
    ("pytorch#51800", "weights are initialized in the first forward, not before", "impossible",
     "every tensor is read when the model is opened; a missing one is an error",
     "tests/model/causal_lm_test.cpp CausalLm.RefusesTensorsWithoutAPlace"),
    ("pytorch#84803", "values are lost between GPUs of one machine", "impossible", "as baichuan2#86",
     "tests/train/sft_equivalence_test.cpp SftEquivalence.FrozenWeightsKeepTheirBits"),
    ("pytorch#96600", "the same on other GPUs", "impossible", "as baichuan2#86",
     "tests/train/sft_equivalence_test.cpp SftEquivalence.FrozenWeightsKeepTheirBits"),
    ("pytorch#104336", "a model that was moved keeps the hooks of its old tensors", "named",
     "bits of every tensor must change with the optimizer's", "GRAD-05"),
    ("pytorch#115607", "a compiled optimizer skips updates after steps without gradient", "named",
     "the stored update is compared with the same step in fp64", "GRAD-08"),
    ("pytorch-forum#84911", "all large layers are frozen: only norms learn", "named", "adapters must cover the layers' parameters", "GRAD-06"),
    ("stackoverflow#60335387", "gradients are not cleared between steps", "impossible",
     "the loop clears them: a resumed step, which begins with none, has the same bits",
     "tests/train/sft_equivalence_test.cpp SftEquivalence.StoppedAndResumedIsBitEqual"),
    ("stackoverflow#67180955", "workers of a loader draw the same random numbers", "impossible",
     "random numbers are a function of seed, step, row and position", "tests/data/order_test.cpp Order.AnyStepCanBeAskedForInAnyOrder"),
    ("transformers#17877", "weights are initialized again and again", "impossible", "the base is read once and never written",
     "tests/train/sft_equivalence_test.cpp SftEquivalence.FrozenWeightsKeepTheirBits"),
    ("transformers#23723", "max_new_tokens does not hold beside a long prompt", "impossible",
     "the sampler counts new tokens; a prompt without room is an error", "tests/rollout/generate_test.cpp Generate.RefusesMoreThanTheModelsPositions"),
    ("transformers#33844", "dropout stays on in evaluation", "impossible", "dropout belongs to passes in training",
     "tests/train/fused_form_test.cpp FusedFormOf.ScoresAsItTrainsWithoutDropout"),
    ("transformers#34204", "a batch of 50 inputs becomes one", "named", "rows, kept rows and targets are counted before step 1", "DATA-01"),
    ("x.com/jxmnop", "a model that is sometimes wrapped for several GPUs", "impossible", "there is one model and one process",
     "tests/train/sft_equivalence_test.cpp SftEquivalence.FrozenWeightsKeepTheirBits"),
    ("transformers#33455", "accumulation ends the training before its last epoch", "impossible",
     "steps of an epoch are transformers' after its fix; NUM-09 prints the arithmetic", "tests/data/order_test.cpp Order.EqualsTransformersTrainer"),
]


def rows(has_test, shown_codes):
    """Rows of shown.tsv; a row whose proof is gone says so."""
    out = []
    for name, what, kind, why, proof in STUDY:
        there = proof in shown_codes if kind == "named" else has_test(proof)
        result = f"{kind}: {why} ({proof})" if there else f"not found: {proof}"
        out.append(("study", f"{name}: {what}", result))
    return out
