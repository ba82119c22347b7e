//! What a tokenizer.json says beside its vocabulary, and a tokenizer as transformers changes it after reading.
//!
//! transformers puts added tokens of other files into the tokenizer, gives some classes a pipeline of their own, and
//! sets truncation and padding at each call. C++ (`text/tokenizer_files.h`) decides what is done; here it is done by
//! the crate that transformers uses, so that ids follow from the same code.

use crate::abi::Failure;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;
use tokenizers::models::ModelWrapper;
use tokenizers::{AddedToken, Tokenizer};

/// Members of the model that are as long as the vocabulary.
const LONG: [&str; 2] = ["vocab", "merges"];

/// An object of a file; its members with these names are left out.
struct Outline {
    without: &'static [&'static str],
    model: bool, // the member "model" is such an object
}

impl<'de> Visitor<'de> for Outline {
    type Value = Map<String, Value>;

    fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut out = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if self.without.contains(&name.as_str()) {
                map.next_value::<IgnoredAny>()?;
            } else if self.model && name == "model" {
                out.insert(name, map.next_value::<Model>()?.0);
            } else {
                let value = map.next_value()?;
                out.insert(name, value);
            }
        }
        Ok(out)
    }
}

struct Model(Value);

impl<'de> serde::Deserialize<'de> for Model {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Outline { without: &LONG, model: false }).map(|map| Model(Value::Object(map)))
    }
}

/// tokenizer.json without its vocabulary and its merges, as JSON.
pub fn outline(json: &[u8]) -> Result<String, Failure> {
    let mut from = serde_json::Deserializer::from_slice(json);
    let found = from
        .deserialize_map(Outline { without: &[], model: true })
        .and_then(|map| from.end().map(|()| map))
        .map_err(|e| Failure::Input(e.to_string()))?;
    Ok(Value::Object(found).to_string())
}

/// The tokenizer of `json`, changed as `form` says (`hone_text_tokenizer_new`).
pub fn read(json: &[u8], form: &[u8]) -> Result<Tokenizer, Failure> {
    let said = |e: tokenizers::Error| Failure::Input(e.to_string());
    let mut tokenizer = Tokenizer::from_bytes(json).map_err(said)?;
    let form: Value = match form {
        [] => Value::Null,
        text => serde_json::from_slice(text).map_err(|e| Failure::Input(e.to_string()))?,
    };
    if form["pipeline"].is_object() {
        tokenizer = rebuilt(&tokenizer, &form["pipeline"])?;
    }
    tokenizer.with_truncation(None).map_err(said)?;
    tokenizer.with_padding(None);
    for step in form["add"].as_array().into_iter().flatten() {
        let tokens: Vec<AddedToken> = part(step)?;
        tokenizer.add_tokens(tokens).map_err(said)?;
    }
    tokenizer.set_encode_special_tokens(form["split_special_tokens"] == true);
    Ok(tokenizer)
}

fn part<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    serde_json::from_value(value.clone()).map_err(|e| Failure::Input(e.to_string()))
}

/// The vocabulary and merges of `read` in another pipeline, without its added tokens.
fn rebuilt(read: &Tokenizer, pipeline: &Value) -> Result<Tokenizer, Failure> {
    let ModelWrapper::BPE(model) = read.get_model() else {
        return Err(Failure::Input("no BPE".into()));
    };
    let mut model = model.clone();
    model.dropout = None;
    model.unk_token = part(&pipeline["unk_token"])?;
    model.fuse_unk = pipeline["fuse_unk"] == true;
    model.byte_fallback = pipeline["byte_fallback"] == true;
    model.ignore_merges = false;
    let mut out = Tokenizer::new(model);
    let normalizer: Option<tokenizers::NormalizerWrapper> = part(&pipeline["normalizer"])?;
    out.with_normalizer(normalizer).map_err(|e| Failure::Input(e.to_string()))?;
    out.with_pre_tokenizer(part::<Option<tokenizers::PreTokenizerWrapper>>(&pipeline["pre_tokenizer"])?);
    out.with_decoder(part::<Option<tokenizers::DecoderWrapper>>(&pipeline["decoder"])?);
    if pipeline["post_processor"] == true {
        out.with_post_processor(read.get_post_processor().cloned());
    }
    Ok(out)
}
