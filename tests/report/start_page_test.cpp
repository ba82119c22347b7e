#include "report/terminal/start_page.h"

#include <gtest/gtest.h>

#include "base/gpu_reports.h"

namespace hone::report {
namespace start_page_test {

train::StartFacts facts() {
  train::StartFacts out;
  out.trained = {.tensors = 420,
                 .parameters = 4884480,
                 .bytes = 19537920,
                 .base_parameters = 134515008,
                 .base_bytes = 269030016,
                 .modules = {"q_proj", "v_proj"},
                 .modules_matched = 60};
  data::DataFacts data;
  data.rows = 100;
  data.kept = 98;
  data.tokens = 4000;
  data.supervised_tokens = 1000;
  data.longest = 60;
  data.mean_length = 40.8;
  out.method = train::ExampleStartFacts{.data = data, .packed_rows = 98};
  out.example = {{"What is 2 + 3?\n", false}, {"5", true}};
  out.total_steps = 80;
  out.steps_per_epoch = 25;
  out.warmup_steps = 4;
  out.output_dir = "out";
  return out;
}

TEST(StartPage, SaysWhatIsTrainedAndTheDataInPlainText) {
  const std::string page = start_page(facts(), {});
  EXPECT_NE(page.find("trained   420 tensors, 4,884,480 parameters (19.5 MB), 3.50 % of 134,515,008\n"
                      "          LoRA on 60 linears: q_proj, v_proj\n"),
            std::string::npos)
      << page;
  EXPECT_NE(
      page.find("data      98 rows, 4,000 tokens, 1,000 of them targets (25.0 %); mean 41, longest 60\n"),
      std::string::npos)
      << page;
  EXPECT_NE(page.find("run       80 steps (25 an epoch), 4 of warm-up, into out\n"), std::string::npos)
      << page;
}

TEST(StartPage, SaysWhichKernelsRunAndHowFast) {
  train::StartFacts measured = facts();
  EXPECT_EQ(start_page(measured, {}).find("products"), std::string::npos);
  measured.products = {.kernels = "avx512",
                       .precision = "bf16",
                       .gflops = 288.4,
                       .limit = 331,
                       .other_precision = "float32",
                       .other_gflops = 270,
                       .seconds = 0.1,
                       .held_to = "avx512"};
  EXPECT_NE(
      start_page(measured, {})
          .find("products  avx512 kernels, bf16: 288 GFLOP/s, 87 % of what these instructions can do here; "
                "float32: 270; held to avx512\n"),
      std::string::npos)
      << start_page(measured, {});
}

TEST(StartPage, SaysWhichCardItIsAndHowFarGpusWereTried) {
  train::StartFacts on_card = facts();
  EXPECT_EQ(start_page(on_card, {}).find("device"), std::string::npos) << "the CPU needs no line";
  on_card.device = {.name = "cuda:0, NVIDIA H100, 80.00 GB",
                    .driver = "driver 580.65.06 for CUDA 13.0, torch 2.11.0 for CUDA 13.0",
                    .memory = "memory in blocks",
                    .reference_forms = {"attention in float32", "soft caps"}};
  const std::string standing = std::string("          ") + base::kCudaStanding + '\n';
  EXPECT_NE(start_page(on_card, {})
                .find("device    cuda:0, NVIDIA H100, 80.00 GB\n"
                      "          driver 580.65.06 for CUDA 13.0, torch 2.11.0 for CUDA 13.0\n"
                      "          memory in blocks\n"
                      "          in reference form: attention in float32, soft caps\n" +
                      standing),
            std::string::npos)
      << start_page(on_card, {});
}

TEST(StartPage, MarksTargetsWithBracketsWithoutColorAndWithGreenInATerminal) {
  EXPECT_NE(start_page(facts(), {}).find("          | What is 2 + 3?\n          | ⟦5⟧\n"), std::string::npos);
  const std::string colored = start_page(facts(), {.interactive = true, .color = true});
  EXPECT_NE(colored.find("\x1b[32m5\x1b[0m"), std::string::npos);
  EXPECT_EQ(colored.find("⟦"), std::string::npos);
}

TEST(StartPage, CountsWhatWentWrongAndStaysSilentAboutWhatDidNot) {
  train::StartFacts changed = facts();
  EXPECT_EQ(start_page(changed, {}).find("rows cut"), std::string::npos);
  data::DataFacts& data = std::get<train::ExampleStartFacts>(changed.method).data;
  data.rows_cut = 3;
  data.tokens_cut = 77;
  data.rows_without_target = 2;
  data.rows_losing_eos = 3;
  data.rows_without_eos_target = 5;
  const std::string page = start_page(changed, {});
  EXPECT_NE(page.find("3 rows cut at max_length (77 tokens lost)"), std::string::npos);
  EXPECT_NE(page.find("2 rows dropped: no target left in them"), std::string::npos);
  EXPECT_NE(page.find("3 rows lost their end-of-sequence token"), std::string::npos);
  EXPECT_NE(page.find("5 rows never have the end of sequence as a target"), std::string::npos);
}

TEST(StartPage, NeverCutsALongExampleInsideACharacter) {
  train::StartFacts changed = facts();
  std::string text = "a";
  for (int i = 0; i < 600; ++i) text += "é";
  changed.example = {{text, false}};
  const std::string page = start_page(changed, {});
  EXPECT_NE(page.find("é…"), std::string::npos);
}

TEST(StartPage, ShowsControlCharactersOfTheData) {
  train::StartFacts changed = facts();
  changed.example = {{"a\tb\x1b[2J\r\x7f\n", false},
                     {"\xc2\x9b"
                      "31m é\xc2\xa0|",
                      true}};
  const std::string page = start_page(changed, {});
  EXPECT_NE(page.find("          | a\tb\\x1b[2J\\x0d\\x7f\n          | ⟦\\x9b31m é\xc2\xa0|⟧\n"),
            std::string::npos)
      << page;
}

TEST(StartPage, ShowsTheMemoryPlanBySegmentAndWhy) {
  EXPECT_EQ(start_page(facts(), {}).find("memory"), std::string::npos) << "nothing was planned";
  train::StartFacts changed = facts();
  changed.memory.segments = {{"program and data", 251'000'000}, {"base weights", 14'990'000'000}};
  changed.memory.total = 15'241'000'000;
  changed.memory.limit = {.bytes = 16'000'000'000, .is_set = true};
  changed.memory.why_recompute = "recompute none: fits 16.00 GB";
  changed.memory.why_layer = "layer form explicit (fused): base frozen, adapters are LoRA on linears";
  const std::string page = start_page(changed, {});
  EXPECT_NE(page.find("memory    program and data   0.25 GB\n"
                      "          base weights      14.99 GB\n"
                      "          total             15.24 GB\n"
                      "          memory_limit      16.00 GB\n"
                      "          recompute none: fits 16.00 GB\n"
                      "          layer form explicit (fused): base frozen, adapters are LoRA on linears\n"
                      "run       80 steps"),
            std::string::npos)
      << page;
  changed.memory.limit.is_set = false;
  EXPECT_NE(start_page(changed, {}).find("          free              16.00 GB\n"), std::string::npos);
  changed.memory.limit.bytes = 0;
  EXPECT_EQ(start_page(changed, {}).find("free"), std::string::npos);
}

TEST(StartPage, SaysFromWhereItResumedAndEveryNote) {
  train::StartFacts changed = facts();
  changed.first_step = 40;
  changed.resumed_from = "out/checkpoint-40";
  changed.notes = {"use_vllm: hone samples with its own weights"};
  const std::string page = start_page(changed, {});
  EXPECT_NE(page.find("resumed   after step 40 from out/checkpoint-40\n"), std::string::npos);
  EXPECT_NE(page.find("note      use_vllm: hone samples with its own weights\n"), std::string::npos);
}

train::StartFacts policy_facts() {
  train::StartFacts out = facts();
  out.method = train::PolicyStartFacts{.prompts = 7473,
                                       .longest_prompt = 214,
                                       .num_generations = 8,
                                       .generation_batch_size = 32,
                                       .steps_per_batch = 1,
                                       .reward_names = {"accuracy_reward", "0.5 x think_format_reward"},
                                       .sampling = "temperature 1, at most 16 new tokens",
                                       .loss = "dapo, beta 0, rewards scaled by group",
                                       .evaluation = "200 prompts x 1 completion"};
  out.example = {{"What is 2 + 3?\n", false}};
  return out;
}

TEST(StartPage, OfGrpoSaysWhatIsSampledAndScored) {
  const std::string page = start_page(policy_facts(), {});
  EXPECT_NE(page.find("          LoRA on 60 linears: q_proj, v_proj\n"
                      "data      7,473 prompts, the longest of 214 tokens\n"
                      "          evaluated on 200 prompts x 1 completion\n"
                      "sampling  4 prompts x 8 completions a step\n"
                      "          temperature 1, at most 16 new tokens\n"
                      "rewards   accuracy_reward, 0.5 x think_format_reward\n"
                      "loss      dapo, beta 0, rewards scaled by group\n"
                      "example   a prompt as the model reads it\n"
                      "          | What is 2 + 3?\n"),
            std::string::npos)
      << page;
  EXPECT_EQ(page.find("targets"), std::string::npos);
}

TEST(StartPage, OfGrpoSaysForHowManyStepsABatchIsTrainedOn) {
  train::StartFacts changed = policy_facts();
  auto& policy = std::get<train::PolicyStartFacts>(changed.method);
  policy.steps_per_batch = 4;
  EXPECT_NE(start_page(changed, {}).find("4 prompts x 8 completions, trained on for 4 steps\n"),
            std::string::npos);
  policy.steps_per_batch = 0;
  EXPECT_NE(start_page(changed, {}).find("4 prompts x 8 completions at a time\n"), std::string::npos);
}

}  // namespace start_page_test
}  // namespace hone::report
