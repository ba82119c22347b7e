// RL: rollouts, rewards, the policy.
#include "doctor/catalogue/catalogue.h"

namespace hone::doctor {
namespace {

constexpr FaultClass kPolicyTable[] = {
    {.code = "RL-01",
     .name = "a loss of 0 that is healthy",
     .flag = "false alarm",
     .when = "R",
     .symptom = "`loss 0.000000` step after step; \"is it broken?\" (TRL#2931, TRL#3452).",
     .cause = "With beta 0 and one update a batch the ratio is 1: a loss that is a mean over sequences is "
              "minus the mean advantage, which is 0, while its gradient is not. A mean over tokens (dapo) is "
              "not 0; its sign says whether longer answers won.",
     .check = "Loss, gradient norm, dead groups and cut completions of a step together: a table that tells "
              "this from RL-02, RL-03, RL-04, GRAD-02 and NUM-02.",
     .advice = "None: watch the reward.",
     .places = "src/doctor/watch/loss_table.cpp"},
    {.code = "RL-02",
     .name = "dead groups: all rewards of a prompt are equal",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "A flat reward and many steps without gradient.",
     .cause =

         "Equal rewards have advantage 0. With success rate p and G completions a group is dead with p^G "
         "+ (1 - p)^G: at p = 0.05, 66 % for G = 8 and 19 % for G = 32.",
     .check = "The share of dead groups of every step, and what useful work that leaves; --deep measures it "
              "before step 1.",
     .advice = "A larger num_generations (the message has the number), prompts that are neither solved nor "
               "hopeless, a reward with more than two values.",
     .places = "src/doctor/probes/probe_rollout.cpp src/doctor/watch/watch_rewards.cpp "
               "src/doctor/watch/loss_table.cpp"},
    {.code = "RL-03",
     .name = "completions are cut, the reward is 0",
     .flag = "SILENT",
     .when = "PR",
     .symptom =

         "Reward 0, loss 0, gradient 0, every length equal to max_completion_length. TRL's own quickstart "
         "was so (TRL#5697).",
     .cause = "The cap is shorter than an answer; the verifier never sees one.",
     .check = "The share of cut completions in every generation batch, from the first one on, beside the "
              "rewards; --deep samples before step 1.",
     .advice = "Raise max_completion_length to what the message says, or mask_truncated_completions: true.",
     .places = "src/doctor/checks/check_answers.cpp src/doctor/probes/probe_rollout.cpp "
               "src/doctor/watch/watch_rewards.cpp"},
    {.code = "RL-04",
     .name = "the reward's parser never matches",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "One component 0.000 for ever while the total rises.",
     .cause =

         "A regex without DOTALL (unsloth#1761); a template that already opens <think>, which the reward "
         "never sees.",
     .check = "The data's own answer, rendered as the trainer passes it, must score more than junk; a "
              "component that never varies is named while the run goes on.",
     .advice = "The message shows what the reward was given: fit the pattern to it. `hone reward-test` tries "
               "again in seconds.",
     .places = "src/doctor/probes/probe_reward.cpp src/doctor/probes/probe_rollout.cpp "
               "src/doctor/watch/watch_rewards.cpp"},
    {.code = "RL-05",
     .name = "the reward returns None, NaN or a wrong count, or lacks a column",
     .flag = "QUIET",
     .when = "PR",
     .symptom = "A crash in the middle of a run, NaN advantages, a reward that is None throughout.",
     .cause = "The user's function; a column that a transform dropped.",
     .check = "Columns before the weights are read; count, finiteness, repeatability and time "
              "of a call on the run's own rows; every call of the run.",
     .advice = "The message names the sample and the function. `hone reward-test` shows its scores.",
     .places = "src/doctor/probes/probe_reward.cpp"},
    {.code = "RL-06",
     .name = "a reward model with a random head",
     .flag = "QUIET",
     .when = "CP",
     .symptom = "The reward moves, quality does not.",
     .cause = "A language model given as reward is loaded as a classifier whose head is newly made; or its "
              "head has two outputs.",
     .check = "The head must be in the file with one output.",
     .advice = "A sequence-classification checkpoint with one label.",
     .standing = Standing::kImpossible,
     .why = "a head is read or the run does not start: none is ever made",
     .proof = "tests/train/model_reward_test.cpp ModelReward.ALanguageModelIsNone"},
    {.code = "RL-07",
     .name = "reward hacking, or one component dominates",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "The reward only goes up; samples are empty shells, tags, copies.",
     .cause = "The reward has a cheap maximum.",
     .check = "--deep and `hone reward-test` score empty, copied, repeated and tag-only answers beside the "
              "right one; the watch looks at a component's share.",
     .advice = "Look at completions/; gate the form on the answer, change reward_weights.",
     .places = "src/doctor/probes/probe_reward.cpp src/doctor/watch/watch_rewards.cpp"},
    {.code = "RL-08",
     .name = "entropy or KL collapse; \"!!!!\"",
     .flag = "SILENT",
     .when = "R",
     .symptom = "Garbled text late in the run.",
     .cause = "The policy has left the reference; off-policy data; logits that are NaN.",
     .check =
         "Entropy and KL of every step against their limits, and how often one token stands in a completion.",
     .advice =

         "Go back to the pinned checkpoint, which the message names; lower learning_rate, beta above 0, "
         "entropy_coef.",
     .places = "src/doctor/watch/watch_steps.cpp src/doctor/watch/watch_rewards.cpp"},
    {.code = "RL-09",
     .name = "groups mixed up",
     .flag = "SILENT",
     .when = "P",
     .symptom = "It learns a little, or explodes later.",
     .cause = "Completions of one prompt with another's group id; a normalisation over the batch.",
     .check = "Nothing to find: a group is a prompt and its completions in one struct.",
     .advice = "None.",
     .standing = Standing::kImpossible,
     .why = "completions are held by their prompt from sampling to advantages, and these equal TRL's, group "
            "by group",
     .proof = "tests/learn/advantages_test.cpp Advantages.EqualTrl"},
    {.code = "RL-10",
     .name = "sampler and trainer disagree on log-probabilities",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "The reward rises, then collapses; stable with one engine and not with another.",
     .cause =

         "Other kernels or dtypes; a temperature that one side does not apply; top-p renormalised on one "
         "side.",
     .check =

         "The largest difference, token by token, before step 1, and the metric ratio_gap of every step: "
         "0 in bf16, about 1e-6 in fp32.",
     .advice = "Report it with `hone env`.",
     .places = "src/doctor/probes/probe_sampler.cpp src/doctor/watch/watch_steps.cpp"},
    {.code = "RL-11",
     .name = "rollouts from the base or from old weights",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "Plausible losses, exit 0, a model that does not improve (unsloth#8701).",
     .cause = "The adapter never reached the sampler, or a sync failed.",
     .check = "The examination's sampler against its trainer with the adapter on, off and moved.",
     .advice = "Nothing: there is no sync.",
     .standing = Standing::kImpossible,
     .why = "sampler and trainer read one model with one adapter",
     .proof = "tests/train/policy_method_test.cpp PolicyMethod.TheSamplerIsTheTrainerAfterTwoHundredSteps"},
    {.code = "RL-12",
     .name = "a stale prefix cache",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "The mismatch of log-probabilities grows within a job and resets on restart; lengths double.",
     .cause = "Keys and values cached by text and kept over an update of the weights.",
     .check = "Nothing to find: keys and values live as long as one generation batch.",
     .advice = "None.",
     .standing = Standing::kImpossible,
     .why = "no key or value outlives the generation batch that made it",
     .proof = "tests/train/policy_method_test.cpp PolicyMethod.TheSamplerIsTheTrainerInBf16"},
    {.code = "RL-13",
     .name = "the loss's denominator counts dead or masked tokens",
     .flag = "SILENT",
     .when = "CP",
     .symptom = "The more dead or cut samples, the smaller the step.",
     .cause = "The numerator is masked, the denominator is not (TRL#6369).",
     .check = "mask_truncated_completions with a loss whose denominator counts them, in the options; dead "
              "groups beside it while the run goes on.",
     .advice =

         "loss_type: bnpo divides by the tokens that count; dr_grpo by none. hone keeps TRL's convention "
         "of each loss.",
     .places = "src/doctor/checks/check_plan.cpp"},
    {.code = "RL-14",
     .name = "generation without a KV cache",
     .flag = "QUIET",
     .when = "PR",
     .symptom = "\"Caching is incompatible with gradient checkpointing\", no progress.",
     .cause = "The checkpointing flag is left on while generating.",
     .check = "Nothing to find: generation has its own form of the layer.",
     .advice = "None; gradient_checkpointing has no effect on sampling.",
     .standing = Standing::kImpossible,
     .why = "sampling always goes through the cache, whatever is recomputed in training",
     .proof = "tests/model/causal_lm_test.cpp EveryFamily.StepsThroughACacheAsTheWholeForward"},
    {.code = "RL-15",
     .name = "the wrong padding side in generation",
     .flag = "QUIET",
     .when = "P",
     .symptom = "\"right-padding was detected\"; poor rollouts in batches only.",
     .cause = "Pad tokens between prompt and continuation.",
     .check = "Nothing to find: no row is padded.",
     .advice = "None.",
     .standing = Standing::kImpossible,
     .why = "sequences have their own keys and positions; a completion is the same alone and in any batch",
     .proof = "tests/rollout/generate_test.cpp Generate.AnswersTheSameInEveryBatchAndWithLittleMemory"},
    {.code = "RL-16",
     .name = "a hook or option is ignored",
     .flag = "SILENT",
     .when = "CP",
     .symptom = "A setting \"has no effect\".",
     .cause = "A renamed key falls back to its default in silence.",
     .check =

         "Every key is known or an error with its neighbour; a key without meaning here gets a note; one "
         "whose effect would differ is refused.",
     .advice = "The message has the nearest name. `hone options NAME` says what is done with it.",
     .standing = Standing::kImpossible,
     .why = "options are one table: each row is supported, answered with a note or refused, and an unknown "
            "name is an error",
     .proof = "tests/config/option_table_test.cpp OptionTable.HasEveryOptionOfTrlWithItsDefaultAndOrigin"},
};

}  // namespace

std::span<const FaultClass> policy_faults() {
  return kPolicyTable;
}

}  // namespace hone::doctor
