// GRAD and NUM: gradients that do not arrive, numbers that go wrong.
#include "doctor/catalogue/catalogue.h"

namespace hone::doctor {
namespace {

constexpr FaultClass kWeightsTable[] = {
    {.code = "GRAD-01",
     .name = "checkpointing with frozen embeddings: no gradient at all",
     .flag = "LOUD",
     .when = "CP",
     .symptom =

         "\"element 0 of tensors does not require grad and does not have a grad_fn\" after the model is "
         "loaded; in GRPO after the first rollouts are paid for (TRL#3150).",
     .cause =

         "The base is frozen, so the embedding's output needs no gradient, and reentrant checkpointing "
         "recomputes a block under that input with no graph to attach to. Not a matter of bf16, of batch "
         "size or of DeepSpeed.",
     .check = "One rehearsal step on a copy: every B of the adapter has a gradient at step 0, every A after "
              "one update (B begins at 0, so A's first gradient is exactly 0).",
     .advice =

         "Nothing: gradient_checkpointing, reentrant or not, becomes hone's own recompute, whose results "
         "are the same bits.",
     .standing = Standing::kImpossible,
     .why = "the backward is written by hand and recomputes from the tape; there is no graph that an input "
            "without gradient could cut",
     .proof = "tests/train/explicit_form_test.cpp ExplicitFormOf.GivesTheSameBitsAtEveryLevelOfRecompute"},
    {.code = "GRAD-02",
     .name = "some adapters get no gradient",
     .flag = "SILENT",
     .when = "PR",
     .symptom =

         "No error; the loss \"goes up and down, and the learning rate doesn't seem to have any impact\" "
         "(TRL#2671).",
     .cause = "Something outside the checkpointed blocks is trainable, so the loss has a path and backward "
              "succeeds, while tensors inside the blocks receive none. Or the user froze them.",
     .check =

         "The rehearsal looks at each tensor, never at \"any\": the names and layers without gradient are "
         "listed. While the run goes on the watch counts tensors whose gradient stays exactly 0.",
     .advice = "Unfreeze what the message names; leave recompute to hone.",
     .places = "src/doctor/probes/probe_gradient.cpp src/doctor/watch/tensor_watch.cpp"},
    {.code = "GRAD-03",
     .name = "\"None of the inputs have requires_grad\" from a pass that needs none",
     .flag = "false alarm",
     .when = "P",
     .symptom = "The warning in DPO or GRPO. Users stop good runs, or learn to ignore the fatal case.",
     .cause = "The reference or scoring pass runs without gradients by design (ms-swift#2298).",
     .check = "Nothing to find: passes that need no gradient are other functions here, and print nothing.",
     .advice = "None.",
     .standing = Standing::kImpossible,
     .why = "reference and rollout passes have no autograd to warn; the policy's gradients beside them equal "
            "TRL's",
     .proof = "tests/parity/trl_grpo_test.cpp TrlGrpoReference.OwnReferenceEqualsTrl"},
    {.code = "GRAD-04",
     .name = "k-bit preparation, or something else, freezes the adapters",
     .flag = "LOUD or SILENT",
     .when = "CP",
     .symptom =
         "The crash of GRAD-01, or grad_norm 0 and a flat loss in 4-bit training (TRL#3926, PEFT#2125).",
     .cause =
         "prepare_model_for_kbit_training freezes everything; on a model that has its adapters already it "
         "freezes those too.",
     .check = "The number of trainable parameters is exactly the sum of r (in + out) over the targets, not "
              "just above 0. A base is quantised while it is read, before there is an adapter.",
     .advice = "Load, quantise, attach, freeze the rest: one owner of that order.",
     .places = "src/doctor/probes/probe_gradient.cpp src/doctor/watch/loss_table.cpp"},
    {.code = "GRAD-05",
     .name = "the optimizer holds stale or wrong parameters",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "Gradients and grad_norm look right, weights never move.",
     .cause = "An optimizer made before the model was moved, wrapped or given adapters (accelerate#2665).",
     .check =

         "The rehearsal's optimizer step must change bits of every trainable tensor; the watch sums them "
         "up again while the run goes on.",
     .advice =

         "Report it: in hone a parameter is one place in one flat buffer, which optimizer, model and file "
         "share.",
     .places = "src/doctor/probes/probe_gradient.cpp src/doctor/watch/tensor_watch.cpp"},
    {.code = "GRAD-06",
     .name = "adapter targets miss what was meant",
     .flag = "SILENT",
     .when = "CP",
     .symptom = "Training works and the model hardly changes; \"0.022 % trainable\".",
     .cause =

         "A name in lora_target_modules hits nothing, or a role (experts, MLP) is not among the targets. "
         "PEFT is silent as long as one entry matches.",
     .check = "Every entry must match at least one linear. Coverage by role (attention, MLP): a role that "
              "holds most of the parameters and has no adapter is a warning. So is a token of "
              "trainable_token_indices that no row of the data has.",
     .advice = "lora_target_modules: all-linear, or the names that the message lists.",
     .places = "src/doctor/checks/check_adapters.cpp src/doctor/checks/check_tokens.cpp"},
    {.code = "GRAD-07",
     .name = "a fused loss bypasses the adapter on the head",
     .flag = "SILENT",
     .when = "CP",
     .symptom = "An adapter on lm_head, or a soft prompt, never improves.",
     .cause = "A fused linear-cross-entropy reads lm_head.weight directly.",
     .check = "lm_head and the embedding are refused as targets.",
     .advice = "Leave lm_head out of the targets.",
     .standing = Standing::kImpossible,
     .why = "the loss does read the head's weight directly, so adapters there are an error and never an idle "
            "tensor",
     .proof = "tests/adapters/targets_test.cpp SelectTargets.RefusesTheHeadAndTheEmbedding"},
    {.code = "GRAD-08",
     .name = "a kernel of the backend drops the update",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "A plateau that looks like bad hyper-parameters for days.",
     .cause =

         "An element-wise kernel that fails without a word, as PyTorch's addcmul_ on MPS did for strided "
         "outputs.",
     .check = "The rehearsal's update is compared with the same AdamW step computed in double precision from "
              "the same gradients.",
     .advice = "Another device or instruction set; report it with `hone env`.",
     .places = "src/doctor/probes/probe_gradient.cpp"},
    {.code = "NUM-01",
     .name = "bf16 weights: the update is rounded away",
     .flag = "SILENT",
     .when = "CPR",
     .symptom =

         "\"very bad convergence with bf16\" (torchtune#2254); norm weights that are exactly 1.0 after "
         "training.",
     .cause =

         "No fp32 copy of what is trained: half an ulp of bf16 is 2^-9 to 2^-8 of a weight. At a learning "
         "rate of 1e-6, 98 % of the weights never move in 200 steps.",
     .check = "The rehearsal compares what was stored with what was intended: 100 % of an update.",
     .advice = "Nothing: adapters are fp32 whatever dtype says.",
     .standing = Standing::kImpossible,
     .why = "what is trained, its gradients and both moments are fp32 in every precision; training bf16 "
            "weights themselves is refused",
     .proof = "tests/adapters/lora_test.cpp Adapter.LearnsInTheReducedModesWithFloatMasters"},
    {.code = "NUM-02",
     .name = "NaN shown as loss 0.0",
     .flag = "SILENT",
     .when = "PRX",
     .symptom = "`loss 0.0, grad_norm nan`; the job ends COMPLETED and every value of the adapter is NaN "
                "(ainode#213: 2,162,688 of 2,162,688).",
     .cause = "The framework filters NaN out of the logged loss, and nobody reads grad_norm. Or the weight "
              "file held the NaN already.",
     .check =

         "Weights, the loss on the run's own data before step 1 (near ln V it is no language model), and "
         "loss, gradient norm and rewards of every step. The first bad value is named: tensor, layer, "
         "sample; the step is not applied.",
     .advice = "A weight file: fetch it again. A run: lower learning_rate; dtype: float32 with bf16: false "
               "tells whether precision is the cause.",
     .places = "src/doctor/probes/probe_loss.cpp src/doctor/probes/probe_gradient.cpp "
               "src/doctor/watch/not_finite.cpp "
               "src/train/loop.cpp src/rollout/decoder.cpp"},
    {.code = "NUM-03",
     .name = "fp16 overflows",
     .flag = "LOUD or SILENT",
     .when = "CPR",
     .symptom =

         "\"Attempting to unscale FP16 gradients\", or a finite loss with NaN gradients and every step "
         "skipped.",
     .cause =
         "Trainable weights in fp16, or a backward beyond 65504 while the forward stays in the hundreds.",
     .check = "fp16 and dtype: float16 are refused when the options are read.",
     .advice = "bf16: true, or dtype: bfloat16.",
     .places = "src/config/options_model.cpp src/config/options_training.cpp src/config/options_tools.cpp"},
    {.code = "NUM-04",
     .name = "a kernel returns garbage or NaN (shape, padding, architecture)",
     .flag = "SILENT",
     .when = "P",
     .symptom =

         "NaN only with padding; grad_norm always 0; 271,686 lines of `FATAL: kernel` in a log that ends "
         "COMPLETED.",
     .cause = "Fully masked rows; kernels not built for this machine; edges of tiles.",
     .check = "Every product and attention shape of this run, in its dtype and at the edges of tiles, in a "
              "child process against an fp32 reference; cached per machine and shape.",
     .advice = "What the message names: a lower instruction set, or layer_form: plain.",
     .places = "src/doctor/probes/probe_hardware.cpp"},
    {.code = "NUM-05",
     .name = "accumulation changes the loss or the gradient",
     .flag = "SILENT",
     .when = "P",
     .symptom = "A loss times gradient_accumulation_steps (8 to 10 instead of 1); results change with the "
                "micro-batch.",
     .cause = "A mean of means instead of one sum over one token count; a last partial window divided by the "
              "full one (transformers#34191, ms-swift#10084).",
     .check = "The same rows in one pass and one by one: the same loss and gradient within rounding.",
     .advice = "Report it: hone normalises once, by the tokens of the whole step.",
     .places = "src/doctor/probes/probe_loss.cpp"},
    {.code = "NUM-06",
     .name = "merge and unmerge wear the frozen base away",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "A GRPO run with LoRA slowly departs from the same run with another sampler.",
     .cause = "Merging adds the delta in fp32, unmerging subtracts it rounded to bf16, at every weight sync "
              "(TRL#6688: after 100 cycles 17 % of the weights changed).",
     .check = "The hash of the frozen weights at the start and at the end.",
     .advice = "Nothing: the adapter is applied, never merged in place.",
     .standing = Standing::kImpossible,
     .why = "sampler and trainer are one set of weights; a merge is a copy in another folder (`hone merge`)",
     .proof = "tests/train/sft_equivalence_test.cpp SftEquivalence.FrozenWeightsKeepTheirBits"},
    {.code = "NUM-07",
     .name = "a matrix product kills the process (SIGFPE, SIGILL, SIGSEGV)",
     .flag = "LOUD",
     .when = "P",
     .symptom = "\"Floating point exception (core dumped)\", no traceback; gone with bf16: false (TRL#2906).",
     .cause = "A defect of the GEMM library on that machine: an integer division in an old cuBLAS on H20. "
              "Learning rate, warm-up, clipping and accumulation are not involved.",
     .check = "Every product of the run in a child process; its signal or time-out is caught, and the same "
              "shape is tried in the other dtypes.",
     .advice = "What the message names: other instructions, another dtype, a newer library. A crash in a run "
               "leaves a report for `hone explain`.",
     .places = "src/doctor/probes/probe_hardware.cpp"},
    {.code = "NUM-08",
     .name = "learning rate wrong for the method or the rank",
     .flag = "SILENT",
     .when = "CPR",
     .symptom =

         "LoRA at 5e-7 \"doesn't learn\" while full fine-tuning does; or 2e-4 at rank 256 goes 4.3, 1.4, "
         "16.",
     .cause = "Rates of full fine-tuning reused for adapters, which want about ten times as much; TRL's "
              "defaults (SFT 2e-5, GRPO 1e-6) do not change with PEFT.",
     .check =

         "The rate against the usual range of the method; the rehearsal's relative step |dW| / |W| at the "
         "peak rate; while the run goes on a loss that stays above its start and a gradient norm far "
         "above its median.",
     .advice = "`hone lr-find` proposes a rate; nothing changes it in silence.",
     .places = "src/doctor/checks/check_schedule.cpp src/doctor/probes/probe_gradient.cpp "
               "src/doctor/watch/watch_steps.cpp"},
    {.code = "NUM-09",
     .name = "schedule and batch arithmetic end the run before it began",
     .flag = "SILENT",
     .when = "C",
     .symptom = "A warm-up longer than the run, 3 optimizer steps in all, a learning rate of 0 throughout.",
     .cause = "Steps counted from other totals than was thought; rows are fewer than a batch; accumulation.",
     .check = "Steps, warm-up and the rate at 0, 10, 50 and 100 % of the run; a warm-up of half the run and "
              "very few steps are named with the arithmetic.",
     .advice = "num_train_epochs, max_steps, warmup_steps or gradient_accumulation_steps: the nearest values "
               "that work are in the message.",
     .places = "src/doctor/checks/check_schedule.cpp"},
};

}  // namespace

std::span<const FaultClass> weight_faults() {
  return kWeightsTable;
}

}  // namespace hone::doctor
