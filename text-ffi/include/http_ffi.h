// C ABI of the HTTP server in text-ffi: hyper and tokio on one thread of their own, HTTP/1.1 without TLS.
//
// Each request comes whole to a function, with a call that the receiver owns. It is answered once, from any thread, whole
// or as a stream, and given back to hone_http_free_call. A call that is given back without an answer gets a 500.
// Nothing here blocks but hone_http_drain. What is sent to a client that has left is dropped.
#ifndef HONE_HTTP_FFI_H_
#define HONE_HTTP_FFI_H_

#include <stddef.h>
#include <stdint.h>

#include "text_ffi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hone_http_server hone_http_server;
typedef struct hone_http_call hone_http_call;

typedef struct {
  const char* data;
  size_t size;
} hone_http_text;

typedef struct {
  hone_http_text name, value;
} hone_http_header;

typedef struct {
  hone_http_text host;
  uint16_t port;
  uint64_t head_bytes;       // of a request's line and headers; at least 8192
  uint64_t body_bytes;       // of a request's body: more is a 413, before it is read where its length is stated
  uint64_t all_body_bytes;   // of the bodies of all calls that are not given back: more is a 429
  uint64_t held_bytes;       // of a stream that its client does not read: more closes the connection
  uint64_t all_answer_bytes; // of all answers and streams that clients have not read: a further answer is a 503
                             // instead, and a further part closes its connection
  uint64_t connections;      // at once; further ones wait
  double read_seconds;       // for a head, and for a body
  double write_seconds;      // without a byte that the client takes
} hone_http_options;

// Views, for the time of the handler. Names of headers are in lower case.
typedef struct {
  uint64_t id;
  hone_http_text method, path, query, body;
  const hone_http_header* headers;
  size_t header_count;
} hone_http_request;

// On the server's thread; must not block.
typedef void (*hone_http_handler)(void* user, hone_http_call* call, const hone_http_request* request);
typedef void (*hone_http_left)(void* user);

// Listens when it returns.
int hone_http_start(const hone_http_options* options, hone_http_handler handler, void* user, hone_http_server** out,
                    hone_text_buffer* err);
uint16_t hone_http_port(const hone_http_server* server);
uint64_t hone_http_connections(const hone_http_server* server);
// Accepts no more, closes idle connections, waits until all calls have ended or `seconds` are over. 1: all have ended.
int hone_http_drain(const hone_http_server* server, double seconds);
// Closes everything and ends the thread. Not from the handler.
void hone_http_free(hone_http_server* server);

// The answer when `whole`, else the head and the first bytes of a stream. The status that the client gets: `status`, or 503
// (all_answer_bytes).
uint16_t hone_http_answer(const hone_http_call* call, uint16_t status, const hone_http_header* headers, size_t header_count,
                          const char* body, size_t size, int whole);
void hone_http_part(const hone_http_call* call, const char* data, size_t size);
void hone_http_end(const hone_http_call* call);
int hone_http_gone(const hone_http_call* call);
// `left` is called once if the client leaves before the answer has been sent: on the server's thread, or now if it has
// left already. It takes the place of the one before, which may run for the last time at this moment; NULL: none. `free`
// is called when `user` is not needed any more, on any thread.
void hone_http_when_gone(const hone_http_call* call, hone_http_left left, hone_http_left free, void* user);
void hone_http_free_call(hone_http_call* call);

#ifdef __cplusplus
}
#endif

#endif  // HONE_HTTP_FFI_H_
