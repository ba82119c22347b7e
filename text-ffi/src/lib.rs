//! Hugging Face tokenizers, chat templates, data files and an HTTP server behind the C ABIs of `include/`.
//!
//! `abi` holds the buffers and the guard around every entry point; `tokenizer_api`, `template_api`, `batch_api` and
//! `data_api` are the entry points themselves. `tokenizer_form` changes a tokenizer as transformers does; `byte_level`
//! and `word_split` are a fast way to its ids. Chat templates are minijinja made to behave like transformers' jinja2:
//! `rewrite` reads their source, `environment` puts the rest together, `generation` marks `{% generation %}`, `filters`,
//! `globals`, `methods`, `python` and `pyjson` are what Python does, `chat` is `apply_chat_template`. `data` reads
//! compressed, Parquet and Arrow files. `scan` and `sandbox` are the limits on hostile files. `http` is a server, behind
//! `include/http_ffi.h`.

mod abi;
mod batch_api;
mod byte_level;
mod chat;
mod data;
mod data_api;
mod environment;
mod filters;
mod generation;
mod globals;
mod http;
mod methods;
mod pyjson;
mod python;
mod rewrite;
mod sandbox;
mod scan;
mod template_api;
mod tokenizer_api;
mod tokenizer_form;
mod word_split;
