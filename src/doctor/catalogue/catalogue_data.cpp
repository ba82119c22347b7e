// DATA and PREF: what the model is shown, and pairs of answers.
#include "doctor/catalogue/catalogue.h"

namespace hone::doctor {
namespace {

constexpr FaultClass kDataTable[] = {
    {.code = "DATA-01",
     .name = "all or most labels masked",
     .flag = "SILENT",
     .when = "P",
     .symptom = "loss 0.0, evaluation NaN, the run \"succeeds\".",
     .cause = "max_length cuts the whole answer away, the template has no {% generation %} block, or a "
              "response marker is not found.",
     .check = "On all rows: those without a single target are counted, and the cause is named, rows at the "
              "length cap or the template.",
     .advice =

         "Raise max_length to the value in the message, or mend the template. TRL drops such rows without "
         "a count.",
     .places = "src/doctor/checks/check_data.cpp src/data/tokenise.cpp"},
    {.code = "DATA-02",
     .name = "silent truncation",
     .flag = "SILENT",
     .when = "P",
     .symptom = "Answers cut off; \"scratching their heads why finetuning doesn't work\".",
     .cause = "max_length is 1024 unless it is set.",
     .check = "Quantiles of the lengths, rows cut, target tokens lost, rows that lose their end.",
     .advice = "The smallest max_length that keeps 99 % of the rows, with its memory.",
     .places = "src/doctor/checks/check_data.cpp"},
    {.code = "DATA-03",
     .name = "the end of sequence is never a target",
     .flag = "SILENT",
     .when = "P",
     .symptom = "The fine-tuned model never stops.",
     .cause = "pad is eos and the collator masks pad; or the end was never appended; or the assistant mask "
              "leaves it out.",
     .check = "The share of rows whose end of sequence, or of turn, is there and a target.",
     .advice = "Let the template's {% generation %} block include the end of turn; hone masks by position, "
               "never by token id.",
     .places = "src/doctor/checks/check_data.cpp"},
    {.code = "DATA-04",
     .name = "the stop token differs between template, tokenizer and generation config",
     .flag = "SILENT",
     .when = "CPX",
     .symptom = "Good training, endless generation in serving.",
     .cause = "The config says <|endoftext|>, the template ends turns with <|im_end|> (ms-swift#3113).",
     .check = "The last token of a rendered assistant turn is one of the ids at which generation stops.",
     .advice = "Add it to generation_config.json's eos_token_id, or set eos_token.",
     .places = "src/doctor/checks/check_template.cpp"},
    {.code = "DATA-05",
     .name = "doubled or missing BOS",
     .flag = "SILENT",
     .when = "P",
     .symptom = "A slightly worse model, a difference between training and serving, nothing in the log.",
     .cause = "The template writes BOS as text and the tokenizer adds another.",
     .check = "The leading BOS tokens of the tokenised rows: one where the tokenizer adds one, never two.",
     .advice = "Take BOS out of the template or of the text.",
     .places = "src/doctor/checks/check_data.cpp"},
    {.code = "DATA-06",
     .name = "tokens differ where prompt meets completion",
     .flag = "QUIET",
     .when = "P",
     .symptom = "The first token of an answer is lost, or trained as prompt.",
     .cause = "A merge across the boundary: a prompt that ends in a space.",
     .check = "The share of rows whose prompt's tokens are no prefix of prompt and completion together.",
     .advice = "Move the space from the end of the prompt to the start of the completion.",
     .places = "src/doctor/checks/check_data.cpp"},
    {.code = "DATA-07",
     .name = "packing lets samples see each other",
     .flag = "QUIET",
     .when = "CP",
     .symptom = "Packed training is faster and worse.",
     .cause = "Attention over the whole packed row, positions that run on.",
     .check = "Nothing to find: attention is by segment, and positions begin anew.",
     .advice = "None; packing costs no quality here.",
     .standing = Standing::kImpossible,
     .why = "examples lie end to end as segments that attention never leaves, packed or not",
     .proof = "tests/ops/attention_test.cpp PackedAttention.NeverLeavesASegment"},
    {.code = "DATA-08",
     .name = "several turns: the template is not prefix-stable",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "Earlier answers duplicated or cut in the training text; drift from what was sampled.",
     .cause = "Reasoning templates delete earlier <think> blocks; decoding and encoding again is not the "
              "identity.",
     .check = "The tokens of a conversation's first turns are a prefix of those of more turns. Rollouts keep "
              "the sampled ids and are never encoded again.",
     .advice = "Another chat_template_path, or one row for each answer.",
     .places = "src/doctor/checks/check_template.cpp"},
    {.code = "DATA-09",
     .name = "untrained or unsaved token embeddings",
     .flag = "SILENT",
     .when = "PX",
     .symptom = "<|eot_id|> at probability 0.05 on a memorised example; an infinite gradient norm.",
     .cause = "Rows of special tokens are zero in a base model, and LoRA does not train embeddings.",
     .check = "The embedding row of every id that the data use: largest element above 1e-16.",
     .advice = "trainable_token_indices, a template with trained tokens, or the instruct model.",
     .places = "src/doctor/checks/check_tokens.cpp"},
    {.code = "DATA-10",
     .name = "token id outside the embedding",
     .flag = "LOUD",
     .when = "P",
     .symptom = "\"CUDA error: device-side assert triggered\" at an unrelated line.",
     .cause = "A token was added to the tokenizer and the embedding not resized.",
     .check = "Every id of the data against the embedding's rows, while rows are tokenised.",
     .advice = "The tokenizer that belongs to the model, or a reserved token in place of the new one.",
     .places = "src/data/row_checks.cpp"},
    {.code = "PREF-01",
     .name = "DPO stuck at 0.693",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "Loss 0.6932 and rewards of exactly 0 for the whole run.",
     .cause =

         "The policy is the reference at every step: the adapter is not trained, or the reference shares "
         "it.",
     .check = "At step 0 it is right; after 5 steps with a learning rate it is not.",
     .advice = "As GRAD-02 and GRAD-05; equal pairs out of the data.",
     .places = "src/doctor/watch/watch_steps.cpp"},
    {.code = "PREF-02",
     .name = "the chosen answer's likelihood falls; degeneration; length bias",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "The margin rises, logps/chosen falls; later \"energy energy energy\".",
     .cause = "The loss rewards the margin alone. A fall by itself is normal.",
     .check =

         "Margin and chosen log-probability together, against the mean of the first five steps; lengths of "
         "chosen and rejected before the run.",
     .advice = "An SFT term, a lower learning rate, a higher beta, length normalisation.",
     .places = "src/doctor/watch/watch_steps.cpp"},
    {.code = "PREF-03",
     .name = "dropout active where log-probabilities are compared",
     .flag = "SILENT",
     .when = "CP",
     .symptom = "KL in the thousands at step 1 (TRL#3500); a ratio that is not 1 in the first pass.",
     .cause = "Policy and reference, or sampler, see other masks; lora_dropout is 0.05 unless it is set.",
     .check = "Any dropout in GRPO and RLOO. hone's sampler never drops, so the ratio holds the trainer's "
              "masks alone.",
     .advice = "lora_dropout: 0, or disable_dropout: true.",
     .places = "src/doctor/checks/check_adapters.cpp"},
    {.code = "PREF-04",
     .name = "the reference drifts or is the wrong model",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "KL or rewards shift without the policy moving.",
     .cause = "The adapter that is switched off is not all that trains; the policy began from an adapter and "
              "the reference is the raw base.",
     .check = "At step 0 policy and reference agree; reference log-probabilities of a fixed batch keep their "
              "bits.",
     .advice = "Reference log-probabilities computed once, or a reference of one's own.",
     .standing = Standing::kImpossible,
     .why = "the reference is the same frozen weights with the adapter off, or the adapter as it began; "
            "nothing else trains",
     .proof = "tests/train/dpo_test.cpp DpoRun.ReferenceStays"},
};

}  // namespace

std::span<const FaultClass> data_faults() {
  return kDataTable;
}

}  // namespace hone::doctor
