//! Compiles the messages of the inference protocol, without protoc: to Rust, and to descriptors
//! that text and JSON are read by.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use prost::Message;

const FOLDER: &str = "proto";
const FILES: [&str; 2] = ["grpc_service.proto", "model_config.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let descriptors = protox::compile(FILES, [FOLDER])?;
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(folder.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        // Maps in a fixed order: the same message has the same bytes and the same JSON.
        .btree_map(".")
        .bytes(".")
        .codec_path("crate::kserve::MessageCodec")
        .compile_fds(descriptors)?;
    Ok(())
}
