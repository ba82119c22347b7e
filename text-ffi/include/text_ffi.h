// C ABI of the Rust crate text_ffi: Hugging Face `tokenizers`, minijinja with Python's manners, and data files.
//
// Status of every int-returning call: HONE_TEXT_OK, or a negative code with a message in *err.
// Strings are UTF-8 with a length, never NUL-terminated. Whatever a call returns is owned by the caller and
// given back to the matching _free, also after an error (freeing an empty buffer does nothing).
// Handles may be shared between threads for all calls that take them const.
//
// Templates, tokenizers and data are files that nobody vouches for. Compiling, rendering, reading, encoding and decoding
// run on pooled threads of this library with limits on memory, CPU time and stack that grow with the input. A call
// that meets one returns HONE_TEXT_LIMIT; its thread sleeps for ever with what it holds, and after 12 of them in a
// process every call returns HONE_TEXT_LIMIT.
#ifndef HONE_TEXT_FFI_H_
#define HONE_TEXT_FFI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  HONE_TEXT_OK = 0,
  HONE_TEXT_ERROR = -1,   // the input is at fault; *err says how
  HONE_TEXT_PANIC = -2,   // a library below gave up on the input; *err holds the panic's message
  HONE_TEXT_RAISED = -3,  // the template called raise_exception; *err is its message, unchanged
  HONE_TEXT_LIMIT = -4,   // the input met a limit; *err is the end of a sentence: "needs more than 64 MB of memory"
  HONE_TEXT_NOT_HAD = -5,  // the template uses something of jinja2 that is not here; *err names it: "the filter random"
};

typedef struct hone_text_tokenizer hone_text_tokenizer;
typedef struct hone_text_template hone_text_template;
typedef struct hone_text_data hone_text_data;

typedef struct {
  char* data;
  size_t size;
} hone_text_buffer;

// `offsets` holds 2 * size byte positions [begin, end) in the input, or is NULL when they were not asked for.
typedef struct {
  uint32_t* ids;
  uint32_t* offsets;
  size_t size;
} hone_text_ids;

// `size` pairs [begin, end) of byte positions.
typedef struct {
  uint64_t* pairs;
  size_t size;
} hone_text_spans;

// ---- tokenizers -----------------------------------------------------------------------------------------------

// The text of a tokenizer.json without its vocabulary and its merges.
int hone_text_tokenizer_outline(const char* json, size_t size, hone_text_buffer* out, hone_text_buffer* err);

// Reads the text of a tokenizer.json, sets its truncation and padding to none, and changes it as the JSON object `form`
// says (size 0: no further); all members may be left out:
//   pipeline              object: the BPE model's vocabulary and merges, without added tokens, go into another pipeline:
//                         its normalizer, pre_tokenizer, decoder (as in tokenizer.json, or null), unk_token (string or
//                         null), fuse_unk, byte_fallback (bool); post_processor (bool): whether the file's stays
//   add                   list of lists of tokens, as tokenizer.json has them without ids, added in this order: a token
//                         of the vocabulary gets these flags, another one the next id
//   split_special_tokens  bool: special tokens in a text are split as other text is
int hone_text_tokenizer_new(const char* json, size_t size, const char* form, size_t form_size,
                            hone_text_tokenizer** out, hone_text_buffer* err);
// The tokenizer as it is now, in the format of tokenizer.json.
int hone_text_tokenizer_json(const hone_text_tokenizer* tokenizer, hone_text_buffer* out, hone_text_buffer* err);
void hone_text_tokenizer_free(hone_text_tokenizer* tokenizer);

// add_special: run the post-processor (BOS and friends). Special tokens in the text are always recognized.
int hone_text_encode(const hone_text_tokenizer* tokenizer, const char* text, size_t size, int add_special,
                     int want_offsets, hone_text_ids* out, hone_text_buffer* err);
int hone_text_decode(const hone_text_tokenizer* tokenizer, const uint32_t* ids, size_t size, int skip_special,
                     hone_text_buffer* out, hone_text_buffer* err);
// The id, or -1 when there is no such token.
int64_t hone_text_token_to_id(const hone_text_tokenizer* tokenizer, const char* token, size_t size);
// HONE_TEXT_OK, or HONE_TEXT_ERROR when no token has this id.
int hone_text_id_to_token(const hone_text_tokenizer* tokenizer, uint32_t id, hone_text_buffer* out);
// Number of tokens, added tokens included.
size_t hone_text_vocab_size(const hone_text_tokenizer* tokenizer);

// ---- chat templates -------------------------------------------------------------------------------------------

int hone_text_template_new(const char* source, size_t size, hone_text_template** out, hone_text_buffer* err);
void hone_text_template_free(hone_text_template* chat_template);
// 1 when the source has a {% generation %} block, else 0.
int hone_text_template_has_generation(const hone_text_template* chat_template);

// transformers' apply_chat_template(tokenize=False). `request` is a JSON object:
//   messages               list of objects, not empty
//   tools, documents       list or null
//   add_generation_prompt  bool
//   continue_final_message bool, or the name of the field to continue
//   variables              object: special tokens (bos_token, ...) and chat_template_kwargs
// `spans` (may be NULL): byte ranges of the {% generation %} blocks in *out.
int hone_text_template_apply(const hone_text_template* chat_template, const char* request, size_t size,
                             hone_text_buffer* out, hone_text_spans* spans, hone_text_buffer* err);

// ---- many at once ---------------------------------------------------------------------------------------------

enum {
  HONE_TEXT_PLAIN = 0,    // a text, encoded without what the post-processor adds
  HONE_TEXT_SPECIAL = 1,  // a text, encoded with it
  HONE_TEXT_CHAT = 2,     // a request of hone_text_template_apply, rendered and encoded without it
};

// The ids of `count` items, one after the other: item i ends at ends[i]. `marks` [size] or NULL: 1 for a token of a
// conversation that overlaps a {% generation %} block.
typedef struct {
  uint32_t* ids;
  uint8_t* marks;
  uint64_t* ends;
  size_t size;
  size_t count;
} hone_text_batch;

// Encodes `count` items in one job, each with the limits that it has by itself. Item i is the bytes of `data` up to
// ends[i], of the kind kinds[i]; `chat_template` may be NULL where none is a conversation. After an error nothing says
// which item it was: the caller tries them one by one.
int hone_text_encode_batch(const hone_text_tokenizer* tokenizer, const hone_text_template* chat_template,
                           const char* data, const size_t* ends, const uint8_t* kinds, size_t count, int want_marks,
                           hone_text_batch* out, hone_text_buffer* err);
void hone_text_batch_free(hone_text_batch batch);

// ---- data files -----------------------------------------------------------------------------------------------

enum {
  HONE_TEXT_GZIP = 1,
  HONE_TEXT_ZSTD = 2,
  HONE_TEXT_PARQUET = 3,
  HONE_TEXT_ARROW = 4,  // IPC stream or file
};

// Opens a file of that kind. `rows`: how many it has, -1 for text. After an error *err is the end of a sentence whose
// subject is the file: "ends in the middle of its data".
int hone_text_data_open(const char* path, size_t size, int kind, hone_text_data** out, int64_t* rows,
                        hone_text_buffer* err);
// The next block, empty at the end. A block of gzip and zstd is a megabyte of what was compressed. A block of
// Parquet and Arrow is whole lines, a JSON object a row, with the values that `datasets` gives. After an
// error a handle is of no more use.
int hone_text_data_next(hone_text_data* data, hone_text_buffer* out, hone_text_buffer* err);
void hone_text_data_free(hone_text_data* data);

void hone_text_buffer_free(hone_text_buffer buffer);
void hone_text_ids_free(hone_text_ids ids);
void hone_text_spans_free(hone_text_spans spans);

#ifdef __cplusplus
}
#endif

#endif  // HONE_TEXT_FFI_H_
