#include <algorithm>

#include "config/helpers.h"
#include "config/option_table.h"
#include "config/write_plan.h"

namespace hone::config {
namespace distill_plan_test {

using Words = std::vector<std::string>;

class DistillPlanTest : public ConfigTest {
 protected:
  Plan distill(Words more = {}) const {
    more.insert(more.end(), {"--teacher_model_name_or_path", path("model")});
    return parse_run(Method::kDistill, arguments(more));
  }
  std::string distill_error(const Words& more) const {
    return short_paths(error_of([&] { distill(more); }));
  }
};

TEST_F(DistillPlanTest, DefaultsAreTrls) {
  const Plan plan = distill();
  EXPECT_EQ(plan.distill.beta, 1);
  EXPECT_EQ(plan.learning_rate, 1e-6);
  EXPECT_EQ(plan.policy.temperature, 1);
  EXPECT_EQ(plan.policy.max_completion_length, 512);
  EXPECT_EQ(plan.policy.num_generations, 1);
  EXPECT_EQ(plan.policy.generation_batch_size, 8);
  EXPECT_FALSE(plan.disable_dropout);
  EXPECT_EQ(plan.train_sampling_strategy, RowOrder::kRandom);
  EXPECT_TRUE(plan.dataloader_drop_last);
  EXPECT_EQ(plan.ref_model, path("model"));
  EXPECT_EQ(plan.ref_precision, std::nullopt);
  EXPECT_EQ(plan.ref_quantized, std::nullopt) << "the model is its own teacher, in its own form";
  EXPECT_TRUE(plan.policy.reward_funcs.empty());
}

TEST_F(DistillPlanTest, EveryOptionReachesThePlan) {
  EXPECT_EQ(distill({"--beta", "0.5"}).distill.beta, 0.5);
  EXPECT_EQ(distill({"--lmbda", "0.25"}).distill.lmbda, 0.25);
  const Plan acting = distill({"--tools", "hone.tools.calculator", "--max_tool_calling_iterations", "3"});
  EXPECT_EQ(acting.acting.tools, std::vector<std::string>{"hone.tools.calculator"});
  EXPECT_EQ(acting.acting.max_tool_calling_iterations, 3);
  EXPECT_EQ(distill({}).acting.max_tool_calling_iterations, -1);
  EXPECT_EQ(distill({"--loss_temperature", "1"}).distill.loss_temperature, 1);
  EXPECT_EQ(distill({"--loss_type", "sampled", "--kl_discount_factor", "0.5"}).distill.kl_discount_factor,
            0.5);
  EXPECT_EQ(distill({"--gradient_accumulation_steps", "3"}).policy.generation_batch_size, 24);
  EXPECT_EQ(distill({"--no_shuffle_dataset"}).train_sampling_strategy, RowOrder::kSequential);
  EXPECT_EQ(distill({"--teacher_quantization", "nf4"}).ref_quantized, QuantizedBase::kNf4);
  EXPECT_EQ(distill({"--teacher_quantization", "int8"}).ref_quantized, QuantizedBase::kInt8);
  EXPECT_EQ(distill({"--teacher_model_init_kwargs", R"({"dtype": "bfloat16"})"}).ref_precision,
            Precision::kBFloat16);
  EXPECT_EQ(distill({"--teacher_model_init_kwargs", R"({"dtype": "float32"})", "--no_bf16"}).ref_precision,
            Precision::kFloat32);
}

TEST_F(DistillPlanTest, ThePlanIsReadBackAsItWas) {
  const Plan plan = distill({"--beta", "0.25", "--teacher_quantization", "fp4", "--output_dir", "there"});
  const std::string text = write_plan(plan);
  EXPECT_TRUE(text.starts_with("# hone distill, resolved.")) << text;
  EXPECT_EQ(parse_run_text(Method::kDistill, text, "plan.yaml"), plan);
}

TEST_F(DistillPlanTest, RefusesWhatCannotBe) {
  EXPECT_NE(error_of([&] { parse_run(Method::kDistill, arguments()); }).find("teacher_model_name_or_path"),
            std::string::npos);
  EXPECT_NE(distill_error({"--beta", "1.5"}).find("from 0 to 1"), std::string::npos);
  EXPECT_NE(
      distill_error({"--teacher_model_init_kwargs", R"({"device_map": "auto"})"}).find("dtype: float32"),
      std::string::npos);
  EXPECT_NE(distill_error({"--lora_target_modules", "q_proj", "lm_head"}).find("no LoRA on lm_head"),
            std::string::npos);
  EXPECT_NE(distill_error({"--lmbda", "0.5", "--loss_type", "sampled"}).find("loss_type: sampled"),
            std::string::npos);
  EXPECT_NE(distill_error({"--lmbda", "0.5", "--tools", "hone.tools.calculator"})
                .find("lmbda: 1 with tools or an environment"),
            std::string::npos);
  EXPECT_NE(distill_error({"--lmbda", "0.5", "--seq_kd"}).find("another form of the model"),
            std::string::npos);
  EXPECT_NE(distill_error({"--init_lora_weights", "pissa"}).find("its own teacher"), std::string::npos);
  EXPECT_NE(distill_error({"--num_generations", "4"}).find("num_generations"), std::string::npos);
}

// Its gradient is right at the temperature of sampling, and of tokens of the whole distribution.
TEST_F(DistillPlanTest, APolicyGradientIsOfWhatTheModelSamples) {
  const auto has_note = [](const Plan& plan, const std::string& begin) {
    return std::any_of(plan.notes.begin(), plan.notes.end(),
                       [&](const std::string& note) { return note.starts_with(begin); });
  };
  const auto sampled = [&](Words more) {
    more.insert(more.end(), {"--loss_type", "sampled"});
    return distill(more);
  };
  EXPECT_NE(distill_error({"--loss_type", "sampled", "--temperature", "0.9", "--loss_temperature", "1"})
                .find("loss_temperature equal to temperature, 0.9"),
            std::string::npos);
  EXPECT_EQ(sampled({"--temperature", "0.5", "--loss_temperature", "0.5"}).distill.loss_temperature, 0.5);
  EXPECT_TRUE(has_note(sampled({"--top_k", "4", "--top_p", "0.9"}), "top_p, top_k: loss_type sampled"));
  EXPECT_TRUE(
      has_note(sampled({"--generation_kwargs", R"({"min_p": 0.1})"}), "min_p: loss_type sampled takes"));
  EXPECT_TRUE(has_note(sampled({"--beta", "0.5"}), "beta: not used, loss_type is not divergence"));
  EXPECT_FALSE(has_note(sampled({}), "top")) << "nothing is cut";
  EXPECT_FALSE(has_note(distill({"--top_k", "4", "--beta", "0.5"}), "top_k"));
  EXPECT_FALSE(has_note(distill({"--beta", "0.5"}), "beta"));
}

TEST_F(DistillPlanTest, RowsAreNotCut) {
  for (const char* name : {"--max_length", "--max_seq_length"})
    EXPECT_NE(distill_error({name, "512"}).find("max_completion_length"), std::string::npos) << name;
}

// A server says log-probabilities of some tokens, at temperature 1.
TEST_F(DistillPlanTest, ATeacherOnAServer) {
  const auto served = [&](Words more) {
    more.insert(more.end(), {"--teacher_model_server_url", "http://127.0.0.1:8000"});
    return parse_run(Method::kDistill, arguments(more));
  };
  const auto refused = [&](const Words& more) { return error_of([&] { served(more); }); };
  const Plan plan = served({"--loss_type", "top_k", "--loss_top_k", "4"});
  EXPECT_EQ(plan.distill.teacher_model_server_url, "http://127.0.0.1:8000");
  EXPECT_EQ(plan.distill.loss_top_k, 4);
  EXPECT_EQ(plan.ref_model, "");
  EXPECT_EQ(served({"--loss_type", "sampled"}).distill.loss_type, "sampled");
  EXPECT_NE(refused({}).find("loss_type: top_k or sampled"), std::string::npos);
  EXPECT_NE(refused({"--loss_type", "top_k", "--temperature", "0.7"}).find("loss_temperature: 1"),
            std::string::npos);
  EXPECT_NE(refused({"--loss_type", "sampled", "--temperature", "0.7"}).find("set temperature: 1"),
            std::string::npos);
  EXPECT_NE(
      refused({"--loss_type", "top_k", "--teacher_model_name_or_path", path("model")}).find("one teacher"),
      std::string::npos);
  EXPECT_NE(distill_error({"--loss_type", "top_k"}).find("teacher_model_server_url"), std::string::npos);
  EXPECT_NE(
      refused({"--loss_type", "top_k", "--teacher_quantization", "nf4"}).find("remove teacher_quantization"),
      std::string::npos);
  for (const char* const url :
       {"localhost:8000", "data:,x", "file:///etc/passwd", "http://", "http://a@b", "http://a?key=b"}) {
    const std::string said = distill_error({"--loss_type", "top_k", "--teacher_model_server_url", url});
    EXPECT_NE(said.find("the address of a server"), std::string::npos) << url << ": " << said;
    EXPECT_EQ(said.find("key=b"), std::string::npos) << "an address may hold a secret";
  }
}

}  // namespace distill_plan_test
}  // namespace hone::config
