#include "serve/tinker/wire.h"

#include <cmath>
#include <cstring>
#include <span>

#include "base/error.h"
#include "serve/tinker/protobuf.h"
#include "serve/tinker/wire_tensor.h"

namespace hone::serve {
namespace {

constexpr std::int64_t kMaxSequence = (std::int64_t{1} << 31) - 1;

template <typename Number>
std::string_view bytes_of(const std::vector<Number>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Number)};
}

void read_chunk(std::string_view bytes, WireDatum& datum) {
  ProtoReader reader(bytes, "Chunk");
  while (reader.next()) {
    if (reader.field() == 2 || reader.field() == 3) {
      throw base::UserError({.where = "model_input",
                             .expected = "chunks of tokens (encoded_text)",
                             .found = reader.field() == 2 ? "an image" : "audio",
                             .cause = "hone trains language models on tokens",
                             .fix = "leave the chunk out"});
    }
    if (reader.field() != 1) {
      reader.skip();
      continue;
    }
    ProtoReader text(reader.bytes(), "EncodedTextChunk");
    while (text.next()) {
      if (text.field() != 1) {
        text.skip();
        continue;
      }
      const std::vector<std::int32_t> ids = numbers_of<std::int32_t>(text.bytes(), "model_input");
      datum.tokens.insert(datum.tokens.end(), ids.begin(), ids.end());
    }
  }
}

// An entry of a map: calls use(key, reader at the value).
template <typename Use>
void read_entry(std::string_view bytes, const char* message, const Use& use) {
  std::string key;
  ProtoReader first(bytes, message);
  while (first.next()) {
    if (first.field() == 1) {
      key = first.text();
    } else {
      first.skip();
    }
  }
  ProtoReader second(bytes, message);
  while (second.next()) {
    if (second.field() == 2) {
      use(key, second);
    } else {
      second.skip();
    }
  }
}

WireDatum read_datum(std::string_view bytes) {
  WireDatum datum;
  ProtoReader reader(bytes, "Datum");
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        read_chunk(reader.bytes(), datum);
        break;
      case 2:
        read_entry(reader.bytes(), "Datum.loss_fn_inputs", [&](const std::string& key, ProtoReader& value) {
          datum.inputs[key] = read_tensor(value.bytes(), "loss_fn_inputs['" + key + "']");
        });
        break;
      case 3:
      case 4:
        datum.has_spans = true;
        reader.skip();
        break;
      default:
        reader.skip();
    }
  }
  return datum;
}

void read_config_value(std::string_view bytes, const std::string& key,
                       std::map<std::string, ConfigValue>& config) {
  ProtoReader reader(bytes, "LossConfigValue");
  while (reader.next()) {
    if (reader.field() == 1) {
      config[key] = reader.number();
    } else if (reader.field() == 2) {
      config[key] = reader.text();
    } else {
      reader.skip();
    }
  }
}

std::int64_t sequence_number(std::uint64_t value) {
  const auto number = static_cast<std::int64_t>(value);
  if (number < 0 || number > kMaxSequence) {
    throw base::UserError({.where = "seq_id",
                           .expected = "a whole number from 1 to 2147483647",
                           .found = std::to_string(number),
                           .cause = {},
                           .fix = {}});
  }
  return number;
}

}  // namespace

ForwardBackwardHead read_forward_backward_head(std::string_view bytes) {
  ForwardBackwardHead head;
  ProtoReader reader(bytes, "ForwardBackwardRequest");
  while (reader.next()) {
    if (reader.field() == 1) {
      head.model_id = reader.text();
    } else if (reader.field() == 2) {
      head.seq_id = sequence_number(reader.varint());
      if (!head.model_id.empty()) break;  // as the SDK writes them: first
    } else {
      reader.skip();
    }
  }
  return head;
}

ForwardBackward read_forward_backward(std::string_view bytes) {
  ForwardBackward out;
  std::map<std::string, ConfigValue> newer;
  ProtoReader reader(bytes, "ForwardBackwardRequest");
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.model_id = reader.text();
        break;
      case 2:
        out.seq_id = sequence_number(reader.varint());
        break;
      case 3:
        out.data.push_back(read_datum(reader.bytes()));
        break;
      case 4:
        out.loss_fn = reader.text();
        break;
      case 5:
        read_entry(reader.bytes(), "loss_fn_config",
                   [&](const std::string& key, ProtoReader& value) { out.config[key] = value.number(); });
        break;
      case 6:
        out.forward_only = reader.varint() != 0;
        break;
      case 7:
        read_entry(reader.bytes(), "loss_fn_config_v2", [&](const std::string& key, ProtoReader& value) {
          read_config_value(value.bytes(), key, newer);
        });
        break;
      default:
        reader.skip();
    }
  }
  for (auto& [key, value] : newer) out.config[key] = std::move(value);
  return out;
}

namespace {

constexpr std::uint64_t kRecordDtype = 1;

// Datums [begin, end), which have as many columns.
std::string array_record(const std::vector<DatumLogprobs>& datums, std::size_t begin, std::size_t end) {
  std::vector<float> values;
  std::vector<std::int64_t> offsets = {0};  // in bytes
  for (std::size_t i = begin; i < end; ++i) {
    values.insert(values.end(), datums[i].values.begin(), datums[i].values.end());
    offsets.push_back(static_cast<std::int64_t>(values.size() * sizeof(float)));
  }
  ProtoWriter tensor;
  tensor.bytes(1, bytes_of(values));
  tensor.bytes(2, bytes_of(offsets));
  tensor.varint(3, kRecordDtype);
  if (datums[begin].columns > 0) {  // packed
    ProtoWriter number;
    number.varint(1, static_cast<std::uint64_t>(datums[begin].columns));
    tensor.bytes(4, std::string_view(number.take()).substr(1));
  }
  ProtoWriter entry;
  entry.bytes(1, "logprobs");
  entry.bytes(2, tensor.take());
  ProtoWriter record;
  record.bytes(1, "ArrayRecord");
  record.bytes(2, entry.take());
  record.varint(3, end - begin);
  return record.take();
}

std::string wire_top(const WireTop& top) {
  ProtoWriter out;
  out.bytes(1, bytes_of(top.ids));
  out.bytes(2, bytes_of(top.logprobs));
  out.varint(3, top.k);
  out.varint(4, top.k == 0 ? 0 : top.ids.size() / top.k);
  return out.take();
}

}  // namespace

std::string write_forward_backward(const std::vector<DatumLogprobs>& datums,
                                   const std::map<std::string, double>& metrics) {
  ProtoWriter out;
  out.bytes(1, "ArrayRecord");
  for (std::size_t begin = 0; begin < datums.size();) {
    std::size_t end = begin + 1;
    while (end < datums.size() && datums[end].columns == datums[begin].columns) ++end;
    out.bytes(2, array_record(datums, begin, end));
    begin = end;
  }
  for (const auto& [name, value] : metrics) {
    ProtoWriter entry;
    entry.bytes(1, name);
    entry.number(2, value);
    out.bytes(3, entry.take());
  }
  return out.take();
}

std::string write_sample(const SampleAnswer& answer) {
  ProtoWriter out;
  for (const SampledSequence& one : answer.sequences) {
    ProtoWriter sequence;
    if (one.is_length) sequence.varint(1, 1);
    sequence.bytes(2, bytes_of(one.tokens));
    sequence.bytes(3, bytes_of(one.logprobs));
    if (one.top.k > 0) sequence.bytes(4, wire_top(one.top));
    out.bytes(1, sequence.take());
  }
  if (!answer.prompt_logprobs.empty()) out.bytes(2, bytes_of(answer.prompt_logprobs));
  if (answer.prompt_top.k > 0) out.bytes(3, wire_top(answer.prompt_top));
  if (answer.cache_hit_tokens > 0) out.varint(4, static_cast<std::uint64_t>(answer.cache_hit_tokens));
  return out.take();
}

}  // namespace hone::serve
