"""GRAD and NUM: gradients that do not arrive, numbers that go wrong."""
from fault import Cases

CASES = Cases()


# ---- by construction impossible: an opened run broken by hand (sabotage.cpp), shown to the same doctor
@CASES.fault("GRAD-01", "the backward gives every adapter tensor a gradient of 0", "sabotage", "no_gradient")
def no_gradient(s):
    s.sft()


@CASES.fault("GRAD-02", "the backward never reaches layer 0", "sabotage", "no_gradient_below")
def no_gradient_below(s):
    s.sft()


CASES.exclude("GRAD-03", "passes without gradient beside the policy's")


@CASES.fault("GRAD-04", "the adapter of a 4-bit base frozen after it was attached", "sabotage", "frozen_adapter")
def frozen_adapter(s):
    s.sft(load_in_4bit=True, use_bnb_nested_quant=True)


@CASES.fault("GRAD-05", "the optimizer's buffer is a copy that the model does not read", "sabotage", "stale_optimizer")
def stale_optimizer(s):
    s.sft()


@CASES.fault("GRAD-06", "lora_target_modules: k_proj of layer 0, 3 % of the layers", level="warn")
def narrow_targets(s):
    s.sft(lora_target_modules=".*layers\\.0\\..*k_proj")


@CASES.fault("GRAD-07", "lora_target_modules names lm_head, with the form whose loss reads the head's weight itself")
def head_target(s):
    s.sft(lora_target_modules=["q_proj", "lm_head"], layer_form="explicit")


@CASES.fault("GRAD-08", "an update that half of the values lose", "sabotage", "dropped_update")
def dropped_update(s):
    s.sft()


@CASES.fault("NUM-01", "learning_rate 1e-13: below half an ulp even of fp32 adapters", level="warn")
def rounded_away(s):
    s.sft(learning_rate=1e-13)


@CASES.fault("NUM-02", "a NaN in a weight file of the base")
def nan_weight(s):
    s.tensor("model.layers.1.mlp.down_proj.weight", lambda values: [float("nan"), *values[1:]])
    s.sft()


@CASES.fault("NUM-02", "an infinity in a norm of the base")
def infinite_norm(s):
    s.tensor("model.layers.0.input_layernorm.weight", lambda values: [float("inf"), *values[1:]])
    s.sft()


@CASES.fault("NUM-02", "a loss that becomes NaN at step 2", "train", "--skip_doctor")
def nan_loss(s):
    s.sft(learning_rate=1e39)


@CASES.fault("NUM-02", "a base whose head was scrambled: the first loss is that of guessing", level="warn")
def scrambled(s):
    s.tensor("model.embed_tokens.weight", lambda values: [v for i in range(0, len(values), 64) for v in
                                                          values[(i * 37) % len(values):][:64]])
    s.sft()


@CASES.fault("NUM-03", "fp16: true")
def half_precision(s):
    s.sft(fp16=True, bf16=False)


@CASES.fault("NUM-04", "an attention kernel that gives other values than fp32's", "sabotage", "wrong_kernel")
def wrong_kernel(s):
    s.sft()


@CASES.fault("NUM-05", "gradients that are not normalized over the micro-batches", "sabotage", "unnormalised")
def unnormalised(s):
    s.sft(gradient_accumulation_steps=2)


@CASES.fault("NUM-06", "a weight of the base that moves by 1 % in each pass", "sabotage", "base_drifts")
def base_drifts(s):
    s.sft()


@CASES.fault("NUM-07", "a bf16 matrix product that dies of SIGFPE", broken="gemm-bf16:SIGFPE")
def gemm_dies(s):
    s.sft(bf16=True)


@CASES.fault("NUM-08", "learning_rate 5: an update larger than the weights", level="warn")
def rate_too_high(s):
    s.sft(learning_rate=5.0)


@CASES.fault("NUM-08", "learning_rate 1e-9, a thousandth of what moves an adapter", level="warn")
def rate_too_low(s):
    s.sft(learning_rate=1e-9)


@CASES.fault("NUM-09", "warmup_steps 20 of 24 steps: TRL trains it too", level="warn", exactly=True, cause="half of the run is below the peak rate")
def long_warmup(s):
    s.sft(warmup_steps=20)


@CASES.fault("NUM-09", "warmup_steps 1000 of 24 steps: nearly no step has a rate", cause="no step has a tenth of learning_rate")
def endless_warmup(s):
    s.sft(warmup_steps=1000)


@CASES.fault("NUM-09", "one epoch of 60 rows at batch 64: one step", level="warn")
def one_step(s):
    s.sft(max_steps=None, num_train_epochs=1, per_device_train_batch_size=64)
