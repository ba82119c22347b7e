// The messages of the Tinker API: those that the SDK 0.38.0 sent to a recorder, and damaged ones.
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "fuzz/mutate.h"
#include "serve/tinker/datums.h"
#include "serve/tinker/wire.h"

namespace hone::serve {
namespace tinker_wire_test {

std::string from_base64(std::string_view text) {
  static const std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = (bits << 6U) | static_cast<std::uint32_t>(kDigits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<char>((bits >> static_cast<unsigned>(count)) & 0xFFU));
  }
  return out;
}

const std::string kTwoDatums = from_base64(
    "CgpzMTp0cmFpbjowEAEadAoUChIKEAEAAAACAAAAAwAAAAQAAAASIgoHd2VpZ2h0cxIXChAAAAAAAAAAAAAAgD8AAIA/GAEiAQQSOAoNdGFyZ2"
    "V0X3Rva2VucxInCiACAAAAAAAAAAMAAAAAAAAABAAAAAAAAAAFAAAAAAAAABgCIgEEGlQKDAoKCggHAAAACAAAABIaCgd3ZWlnaHRzEg8KCAAA"
    "gD8AAIA/GAEiAQISKAoNdGFyZ2V0X3Rva2VucxIXChAIAAAAAAAAAAkAAAAAAAAAGAIiAQIiDWNyb3NzX2VudHJvcHk=");
const std::string kPpo = from_base64(
    "CgpzMTp0cmFpbjowEAUaiAEKEAoOCgwBAAAAAgAAAAMAAAASHwoIbG9ncHJvYnMSEwoMAAAAAJqZGb8zMzO/GAEiAQMSMAoNdGFyZ2V0X3Rva2"
    "VucxIfChgCAAAAAAAAAAMAAAAAAAAABAAAAAAAAAAYAiIBAxIhCgphZHZhbnRhZ2VzEhMKDAAAAAAAAIA/AACAPxgBIgEDIgNwcG8qHQoSY2xp"
    "cF9sb3dfdGhyZXNob2xkEc3MzMzMzOw/Kh4KE2NsaXBfaGlnaF90aHJlc2hvbGQRmpmZmZmZ8T86HwoSY2xpcF9sb3dfdGhyZXNob2xkEgkJzc"
    "zMzMzM7D86IAoTY2xpcF9oaWdoX3RocmVzaG9sZBIJCZqZmZmZmfE/");
const std::string kSparse = from_base64(
    "CgpzMTp0cmFpbjowEAsa9gEKFAoSChABAAAAAgAAAAMAAAAEAAAAEmUKB3dlaWdodHMSWhJSCgwAAIA/AACAPgAAQD8SKAAAAAAAAAAAAQAAAA"
    "AAAAABAAAAAAAAAAEAAAAAAAAAAwAAAAAAAAAaGAAAAAAAAAAAAAAAAAAAAAABAAAAAAAAABgBIgIEBBJ3Cg10YXJnZXRfdG9rZW5zEmYSXgoY"
    "AgAAAAAAAAAFAAAAAAAAAAYAAAAAAAAAEigAAAAAAAAAAAEAAAAAAAAAAQAAAAAAAAABAAAAAAAAAAMAAAAAAAAAGhgAAAAAAAAAAAAAAAAAAA"
    "AAAQAAAAAAAAAYAiICBAQiDWNyb3NzX2VudHJvcHk=");

TEST(TinkerWire, RequestOfTheSdk) {
  const ForwardBackward request = read_forward_backward(kTwoDatums);
  EXPECT_EQ(request.model_id, "s1:train:0");
  EXPECT_EQ(request.seq_id, 1);
  EXPECT_EQ(request.loss_fn, "cross_entropy");
  EXPECT_FALSE(request.forward_only);
  ASSERT_EQ(request.data.size(), 2U);
  EXPECT_EQ(request.data[0].tokens, (std::vector<std::int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(std::get<1>(request.data[0].inputs.at("target_tokens").values),
            (std::vector<std::int64_t>{2, 3, 4, 5}));
  EXPECT_EQ(std::get<0>(request.data[0].inputs.at("weights").values), (std::vector<float>{0, 0, 1, 1}));
  EXPECT_EQ(request.data[1].tokens, (std::vector<std::int32_t>{7, 8}));
  const ForwardBackwardHead head = read_forward_backward_head(kTwoDatums);
  EXPECT_EQ(head.model_id, "s1:train:0");
  EXPECT_EQ(head.seq_id, 1);
}

TEST(TinkerWire, ConfigOfALoss) {
  const ForwardBackward request = read_forward_backward(kPpo);
  const LossSpec loss = read_loss(request.loss_fn, request.config);
  EXPECT_EQ(loss.kind, LossKind::kPpo);
  EXPECT_EQ(loss.low, 0.9);
  EXPECT_EQ(loss.high, 1.1);
  const Datum datum = datum_of(request.data.at(0), loss, true, "datum 0");
  EXPECT_EQ(datum.advantages, (std::vector<float>{0, 1, 1}));
}

TEST(TinkerWire, SparseTargetsBecomeDense) {
  const ForwardBackward request = read_forward_backward(kSparse);
  const WireTensor& targets = request.data.at(0).inputs.at("target_tokens");
  EXPECT_EQ(targets.shape, (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(std::get<1>(targets.values),
            (std::vector<std::int64_t>{2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 0, 0}));
  const Datum datum = datum_of(request.data[0], {}, true, "datum 0");
  EXPECT_EQ(datum.columns, 4);
  EXPECT_FALSE(datum.is_flat);
}

// The recorder's answers of the same numbers, byte by byte.
TEST(TinkerWire, AnswersAsTheSdkReadsThem) {
  const auto logprob = [](int token) { return static_cast<float>(-0.5 - 0.01 * (token % 7)); };
  EXPECT_EQ(
      write_forward_backward({{.values = {logprob(2), logprob(3), logprob(4), logprob(5)}},
                              {.values = {logprob(8), logprob(9)}}},
                             {{"loss:sum", 2.1199999749660492}})
          .substr(0, 98),
      from_base64(
          "CgtBcnJheVJlY29yZBJTCgtBcnJheVJlY29yZBJCCghsb2dwcm9icxI2Chi4HgW/FK4Hv3E9Cr/NzAy/XI8Cv7geBb8SGA"
          "AAAAAAAAAAEAAAAAAAAAAYAAAAAAAAABgBGAIaEwoIbG9zczpzdW0RAAAAkML1AEA=")
          .substr(0, 98));
  const std::string top = from_base64(
      "CgtBcnJheVJlY29yZBJ2CgtBcnJheVJlY29yZBJlCghsb2dwcm9icxJZCkC4HgW/AAAAvwAAAL8AAAC/AAAAvwAAAL8AAAC/AAAAvwAAAL8AAA"
      "C/AAAAvwAAAL/NzAy/KVwPvwAAAL8AAAC/EhAAAAAAAAAAAEAAAAAAAAAAGAEiAQQYARoTCghsb3NzOnN1bREAAACgcD3xPw==");
  DatumLogprobs many{.values = {}, .columns = 4};
  for (const int token : {2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 0, 0})
    many.values.push_back(logprob(token));
  const std::string mine = write_forward_backward({many}, {{"loss:sum", 0}});
  EXPECT_EQ(mine.substr(0, mine.size() - 8), top.substr(0, top.size() - 8));
}

TEST(TinkerWire, Samples) {
  const auto logprob = [](int token) { return static_cast<float>(-0.5 - 0.01 * (token % 7)); };
  SampleAnswer answer;
  answer.sequences.push_back({.is_length = true, .tokens = {5}, .logprobs = {logprob(5)}});
  answer.prompt_logprobs = {std::numeric_limits<float>::quiet_NaN(), logprob(2), logprob(3), logprob(4)};
  EXPECT_EQ(write_sample(answer), from_base64("Cg4IARIEBQAAABoEzcwMvxIQAADAf7geBb8Urge/cT0Kvw=="));
}

TEST(TinkerWire, WhatIsWrongIsNamed) {
  const auto says = [](const std::string& bytes) -> std::string {
    try {
      const ForwardBackward request = read_forward_backward(bytes);
      for (const WireDatum& datum : request.data)
        datum_of(datum, read_loss(request.loss_fn, request.config), true, "datum");
    } catch (const base::UserError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(says(kTwoDatums.substr(0, 60)).find("bytes where"), std::string::npos);
  EXPECT_NE(says(std::string("\x0b", 1)).find("wire type 3"), std::string::npos);
  EXPECT_NE(says(std::string("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF")).find("64 bits"),
            std::string::npos);
  std::string nan = kTwoDatums;
  nan.replace(nan.find(std::string("\0\0\x80\x3F", 4)), 4, std::string("\0\0\xC0\x7F", 4));
  EXPECT_NE(says(nan).find("finite"), std::string::npos);
}

void read_all(const std::string& bytes) {
  const ForwardBackward request = read_forward_backward(bytes);
  const LossSpec loss = read_loss(request.loss_fn, request.config);
  for (const WireDatum& datum : request.data) datum_of(datum, loss, true, "datum");
}

TEST(TinkerWireFuzz, Requests) {
  fuzz::run(fuzz::seconds(2), {kTwoDatums, kPpo, kSparse}, fuzz::mutated_bytes, read_all);
}

}  // namespace tinker_wire_test
}  // namespace hone::serve
