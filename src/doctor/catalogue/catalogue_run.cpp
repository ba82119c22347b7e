// DIST, CKPT, ENV and MEM: ranks, files, the machine.
#include "doctor/catalogue/catalogue.h"

namespace hone::doctor {
namespace {

constexpr std::string_view kOneProcess =
    "DIST: it comes with several ranks; until then a run is one process, and sharding options are refused";

constexpr FaultClass kRunTable[] = {
    {.code = "DIST-01",
     .name = "the adapter is saved empty under ZeRO-3",
     .flag = "SILENT",
     .when = "PX",
     .symptom = "Training is fine, adapter_model.safetensors is 40 bytes.",
     .cause = "Partitioned parameters look like size 0 to the saver.",
     .check = "A save at step 1, opened again: counts as planned, not all zero.",
     .advice = "Gather before saving.",
     .standing = Standing::kNotYet,
     .why = kOneProcess},
    {.code = "DIST-02",
     .name = "ranks do unequal work: a hang",
     .flag = "LOUD",
     .when = "PR",
     .symptom = "GPU at 0 %, memory constant, a time-out of NCCL.",
     .cause = "Other numbers of sequences a rank; a dummy chunk without a path to the loss.",
     .check = "Shortest against longest on each rank; a heartbeat with the name of the collective.",
     .advice = "Pad work, not time.",
     .standing = Standing::kNotYet,
     .why = kOneProcess},
    {.code = "DIST-03",
     .name = "replicas diverge",
     .flag = "SILENT",
     .when = "R",
     .symptom = "None; conflicting checkpoints.",
     .cause = "A tensor updated or clipped otherwise on one rank.",
     .check = "Hashes of replicated tensors across ranks.",
     .advice = "Stop; go on from the last equal step.",
     .standing = Standing::kNotYet,
     .why = kOneProcess},
    {.code = "DIST-04",
     .name = "every rank trains on the same data",
     .flag = "SILENT",
     .when = "P",
     .symptom = "N GPUs, the learning of one.",
     .cause = "Data that are not sharded.",
     .check = "The first samples of each rank: nothing twice.",
     .advice = "Shard by rank in one place.",
     .standing = Standing::kNotYet,
     .why = kOneProcess},
    {.code = "CKPT-01",
     .name = "adapter keys missing on load, or an adapter without effect",
     .flag = "QUIET",
     .when = "PX",
     .symptom = "The fine-tuned output is the base's.",
     .cause = "Another prefix of the keys, a loader that ignores what it does not know, B all zero.",
     .check = "A key or shape that does not fit is an error when an adapter is read; --deep saves, loads and "
              "compares log-probabilities with those of the adapter in memory and of the base.",
     .advice = "The message names the first key.",
     .places = "src/doctor/probes/probe_round_trip.cpp"},
    {.code = "CKPT-02",
     .name = "a merge into 4-bit weights, or onto the wrong base",
     .flag = "QUIET",
     .when = "PX",
     .symptom = "The merged model is worse than the adapter.",
     .cause = "Quantised again after the merge; or trained on quantised weights and merged onto the others.",
     .check = "--deep merges into a copy, of a 4- or 8-bit base onto what its codes stand for, and compares "
              "it with "
              "the adapter-on model: KL below 0.01 and the same first choice for 98 % of the tokens. Beside "
              "it the "
              "adapter on the base as it is stored, with its KL.",
     .advice = "hone merge --load_in_4bit for an adapter of a 4-bit base: in full precision; quantise "
               "afterwards, if at all.",
     .places = "src/doctor/probes/probe_round_trip.cpp"},
    {.code = "CKPT-03",
     .name = "tied embeddings overwritten after a merge",
     .flag = "SILENT",
     .when = "CX",
     .symptom = "Fine in memory, broken after it was loaded again.",
     .cause = "Embedding and head trained apart while the config says that they are tied.",
     .check = "lm_head and the embedding are refused as targets.",
     .advice = "None.",
     .standing = Standing::kImpossible,
     .why = "neither can be trained, and an export writes a tied head once",
     .proof = "tests/adapters/targets_test.cpp SelectTargets.RefusesTheHeadAndTheEmbedding"},
    {.code = "CKPT-04",
     .name = "the exported model uses another template",
     .flag = "SILENT",
     .when = "PX",
     .symptom = "\"works in Colab, garbage in Ollama\".",
     .cause = "The runtime's template, BOS rule or set of stops differs.",
     .check = "Nothing to find in hone's own files; a runtime that is given other files is not seen.",
     .advice = "Ship the files of output_dir together.",
     .standing = Standing::kImpossible,
     .why = "output_dir holds tokenizer, template and stops as they were trained with, byte for byte",
     .proof = "tests/text/tokenizer_test.cpp Tokenizer.SaveCopiesByteForByteEvenWhenTheFolderIsGone"},
    {.code = "CKPT-05",
     .name = "a resume that is none",
     .flag = "SILENT",
     .when = "PR",
     .symptom = "A jump of the loss, repeated data, a run that begins at 0 again.",
     .cause = "Optimizer, schedule, position in the data or random state not stored.",
     .check = "--deep saves, loads and takes the next step twice: the same bits. A resumed run says what "
              "differs from the checkpoint's.",
     .advice = "Resume with the options and the rows of the first run; else call it a new one with "
               "adapter_name_or_path.",
     .places = "src/doctor/probes/probe_resume.cpp"},
    {.code = "CKPT-06",
     .name = "disk full, or a half-written checkpoint",
     .flag = "LOUD",
     .when = "CP",
     .symptom = "\"No space left on device\" at the last step; the next start reads half a folder.",
     .cause = "No budget, files not written in one go.",
     .check = "Free bytes against all checkpoints that the run will keep, and a fifth. Folders are written "
              "aside and renamed.",
     .advice = "save_total_limit, or another output_dir.",
     .places = "src/doctor/probes/probe_budget.cpp"},
    {.code = "ENV-01",
     .name = "versions: a run changes with what is installed",
     .flag = "LOUD or SILENT",
     .when = "C",
     .symptom = "Pins that cannot be satisfied; the same script collapses with a newer library.",
     .cause = "Trainer, sampler, model code and tensors are four packages with their own defaults.",
     .check = "Nothing to find: one program, and plan.yaml holds every option as resolved.",
     .advice = "Keep plan.yaml; `hone env` says what a machine has.",
     .standing = Standing::kImpossible,
     .why = "one binary with its kernels; a run repeated from its plan.yaml does not read a default",
     .proof = "tests/config/write_plan_test.cpp WritePlanTest.DefaultsComeBack"},
    {.code = "MEM-01",
     .name = "logits by vocabulary: out of memory",
     .flag = "LOUD",
     .when = "CP",
     .symptom = "A 0.6B model needs more than 20 GB.",
     .cause = "Logits of every token by 150,000 words, and a sampler that wants its share.",
     .check =

         "The memory plan, segment by segment, against what is free or memory_limit. Logits are computed "
         "in tiles and never kept.",
     .advice = "What the table's largest segment says: per_device_train_batch_size, max_length, kv_memory.",
     .places = "src/doctor/probes/probe_budget.cpp"},
    {.code = "MEM-02",
     .name = "out of memory late: the longest batch, or memory that creeps",
     .flag = "LOUD",
     .when = "CPR",
     .symptom = "It dies at step 2,321 after four hours.",
     .cause = "The longest batch comes late; a leak.",
     .check =

         "The plan is made for the longest batch of the data; the watch fits a line through the process's "
         "memory and says when it would be used up.",
     .advice = "Lower memory_limit or the batch; go on from the checkpoint.",
     .places = "src/doctor/probes/probe_budget.cpp src/doctor/watch/watch_steps.cpp"},
};

}  // namespace

std::span<const FaultClass> run_faults() {
  return kRunTable;
}

}  // namespace hone::doctor
