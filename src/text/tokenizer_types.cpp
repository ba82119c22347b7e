// transformers 5.23's tables of tokenizer classes (models/auto/tokenization_auto.py), without mistral-common.
#include <algorithm>
#include <array>

#include "text/tokenizer_class.h"

namespace hone::text {
namespace {

// Words between blanks.
bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

struct ClassRow {
  std::string_view name, types;
};

// TOKENIZER_MAPPING_NAMES; classes that hone does not have are all "".
constexpr ClassRow kRegistered[] = {
    {"TokenizersBackend",
     "EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chatlm cohere_asr ernie4_5 "
     "ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr got_ocr2 "
     "gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared h2ovl_chat "
     "hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder jamba kimi_k25 kimi_linear kosmos-2 llava "
     "llava_next mimo_v2_flash minicpm3 minicpm_ocr minicpmv minicpmv4_6 minicpmv4_7 minimax_m2 ministral "
     "ministral3 mistral mistral3 mistral_large4 mixtral modernbert modernbert-decoder molmo molmo2 "
     "nemo_speechlm nemotron nvfp4 nystromformer olmo2 olmo3 olmo_hybrid opencua openvla paddleocr_vl "
     "pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral pocket_tts smolvlm stablelm step3_vl umt5 "
     "vipllava voxtral voxtral_realtime xlm-roberta-xl"},
    {"CohereTokenizer", "aya_vision cohere cohere2"},
    {"GPT2Tokenizer",
     "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip instructblipvideo jais2 "
     "opt phi starcoder2"},
    {"GPTNeoXTokenizer", "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm"},
    {"GemmaTokenizer",
     "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 "
     "t5gemma zaya"},
    {"LlamaTokenizer", "idefics idefics2"},
    {"Qwen2Tokenizer",
     "audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl lighton_ocr "
     "moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe qwen2_vl "
     "qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice"},
    {"Qwen3_5Tokenizer", "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp"},
    {"",
     "aimv2 albert align bark bart barthez bartpho bert bert-japanese bertweet big_bird biogpt blenderbot "
     "blenderbot-small blip bridgetower bros byt5 camembert canine chinese_clip clap clip clipseg clvp "
     "code_llama convbert cpm cpmant ctrl data2vec-audio data2vec-text deberta deberta-v2 dia distilbert dpr "
     "electra ernie esm esmc esmfold2 flaubert flava florence2 fnet fsmt funnel git gpt_neox_japanese "
     "granite_speech5_ctc grounding-dino groupvit gte herbert hubert ibert jina_embeddings_v3 lasr_ctc "
     "lasr_encoder layoutlm layoutlmv2 layoutlmv3 layoutxlm led lilt longformer luke lxmert markuplm mbart "
     "mbart50 mega megatron-bert metaclip_2 mgp-str mm-grounding-dino mobilebert mpnet mra mt5 musicgen "
     "musicgen_melody mvp myt5 nemotron3_5_asr nemotron_asr_streaming nezha nllb nllb-moe nomic_bert nougat "
     "omdet-turbo oneformer openai-gpt owlv2 owlvit parakeet_ctc parakeet_rnnt parakeet_tdt pegasus "
     "perceiver phobert plbart pp_formulanet prophetnet qdqbert rag realm reformer rembert retribert roberta "
     "roberta-prelayernorm roc_bert roformer sam3 sam3_video seamless_m4t seamless_m4t_v2 siglip2 splinter "
     "squeezebert switch_transformers t5 tapas trocr tvp udop unispeech unispeech-sat videoprism vilt "
     "visual_bert vits wav2vec2 wav2vec2-bert wav2vec2-conformer wav2vec2_phoneme whisper xclip xglm xlm "
     "xlm-roberta xlnet xmod yoso"},
};

// MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS.
constexpr std::string_view kWrongClass =
    "arctic camembertv2-base chatlm cohere_asr ernie4_5 ernie4_5_moe fuyu h2ovl_chat hyperclovax "
    "hyperclovax_vision_v2 hyperclovax_vlm internlm2 internlm3 iquestcoder jamba llava llava_next minicpm3 "
    "minicpmv minimax_m2 modernbert modernbert-decoder molmo molmo2 nemotron nvfp4 opencua openvla "
    "paddleocr_vl phi3 phi3_v phimoe qwen2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp siglip2 smolvlm "
    "step3_vl vipllava";

// Classes that hone does not have.
constexpr std::string_view kOtherClasses =
    "AlbertTokenizer BartTokenizer BarthezTokenizer BartphoTokenizer BasicTokenizer BertGenerationTokenizer "
    "BertJapaneseTokenizer BertTokenizer BertTokenizerLegacy BertweetTokenizer BigBirdTokenizer "
    "BioGptTokenizer BlenderbotSmallTokenizer BlenderbotTokenizer ByT5Tokenizer CLIPTokenizer CTRLTokenizer "
    "CamembertTokenizer CanineTokenizer CharacterTokenizer ClvpTokenizer CodeGenTokenizer "
    "ConvBertTokenizer CpmAntTokenizer CpmTokenizer DPRContextEncoderTokenizer DPRQuestionEncoderTokenizer "
    "DPRReaderTokenizer DebertaTokenizer DebertaV2Tokenizer DiaTokenizer DistilBertTokenizer EsmTokenizer "
    "EsmcTokenizer FNetTokenizer FSMTTokenizer FastSpeech2ConformerTokenizer FlaubertTokenizer "
    "FunnelTokenizer GPTNeoXJapaneseTokenizer GPTSw3Tokenizer HerbertTokenizer LEDTokenizer LasrTokenizer "
    "LayoutLMv2Tokenizer LayoutLMv3Tokenizer LayoutXLMTokenizer LukeTokenizer LxmertTokenizer "
    "M2M100Tokenizer MBart50Tokenizer MBartTokenizer MLukeTokenizer MPNetTokenizer MarianTokenizer "
    "MarkupLMTokenizer MecabTokenizer MgpstrTokenizer MistralCommonBackend MobileBertTokenizer MvpTokenizer "
    "MyT5Tokenizer NllbTokenizer NougatTokenizer OpenAIGPTTokenizer PLBartTokenizer ParakeetTokenizer "
    "PegasusTokenizer PerceiverTokenizer PhobertTokenizer Pop2PianoTokenizer ProphetNetTokenizer "
    "RagTokenizer ReformerTokenizer RemBertTokenizer RoCBertTokenizer RoFormerTokenizer RobertaTokenizer "
    "SeamlessM4TTokenizer Siglip2Tokenizer SiglipTokenizer Speech2TextTokenizer SpeechT5Tokenizer "
    "SplinterTokenizer SqueezeBertTokenizer T5Tokenizer TapasTokenizer Tipsv2Tokenizer UdopTokenizer "
    "VideoPrismTokenizer VitsTokenizer Wav2Vec2CTCTokenizer Wav2Vec2PhonemeCTCTokenizer WhisperTokenizer "
    "WordpieceTokenizer XGLMTokenizer XLMRobertaTokenizer XLMTokenizer XLNetTokenizer";

constexpr std::array kGeneric = {"TokenizersBackend", "PreTrainedTokenizerFast", "PreTrainedTokenizer",
                                 "PythonBackend", "BloomTokenizer"};
constexpr std::array kOwnPipeline = {"Qwen2Tokenizer",     "Qwen3_5Tokenizer", "LlamaTokenizer",
                                     "CodeLlamaTokenizer", "GemmaTokenizer",   "GPT2Tokenizer",
                                     "GPTNeoXTokenizer",   "CohereTokenizer"};

}  // namespace

std::optional<std::string_view> registered_class(std::string_view model_type) {
  for (const ClassRow& row : kRegistered) {
    if (has_word(row.types, model_type)) return row.name;
  }
  return std::nullopt;
}

bool names_wrong_class(std::string_view model_type) {
  return has_word(kWrongClass, model_type);
}

std::string_view without_fast(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  return name;
}

KnownClass known_class(std::string_view name) {
  const std::string_view base = without_fast(name);
  const auto is = [&](std::string_view each) { return each == name || each == base; };
  if (std::any_of(kGeneric.begin(), kGeneric.end(), is)) return {ClassKind::kGeneric, "TokenizersBackend"};
  if (base == "Phi3Tokenizer") return {ClassKind::kOwnPipeline, "LlamaTokenizer"};
  if (std::find(kOwnPipeline.begin(), kOwnPipeline.end(), base) != kOwnPipeline.end())
    return {ClassKind::kOwnPipeline, base};
  if (has_word(kOtherClasses, base)) return {ClassKind::kOther, base};
  return {ClassKind::kUnknown, "TokenizersBackend"};
}

}  // namespace hone::text
