//! A model that exists by its numbers alone, for measurements.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use terrace_kernels::WeightFormat;
use terrace_model::KnownShape;

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "A shape instead of a model")]
pub struct ShapeOptions {
    /// Measure a decoder of this shape, without any file. Speed depends on the shape and not on
    /// what the numbers say, so its time is that of the real model; its outputs mean nothing.
    #[arg(long, value_name = "NAME", value_parser = shapes(), conflicts_with = "model",
          requires = "random_weights")]
    pub shape: Option<KnownShape>,

    /// Fill the shape's weights with random numbers, made where they are computed with. Must be
    /// said, so that nobody takes what comes out for a model's output.
    #[arg(long, requires = "shape")]
    random_weights: bool,

    /// How the shape's weights are stored.
    #[arg(long, value_name = "FORMAT", value_parser = formats(), default_value = "bf16",
          requires = "shape")]
    pub weights: WeightFormat,
}

fn shapes() -> impl TypedValueParser<Value = KnownShape> {
    let names = KnownShape::ALL.map(|shape| PossibleValue::new(shape.name));
    PossibleValuesParser::new(names)
        .map(|name| KnownShape::find(&name).expect("the parser lets known names through"))
}

fn formats() -> impl TypedValueParser<Value = WeightFormat> {
    let names = ["bf16", "f32", "q8_0", "q4_0", "q4_1", "q4_k", "q6_k"].map(PossibleValue::new);
    PossibleValuesParser::new(names).map(|name| {
        let named = |format: &WeightFormat| format.name().eq_ignore_ascii_case(&name);
        WeightFormat::ALL.into_iter().find(named).expect("the names are those of formats")
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    /// As a command sees it, beside the option it conflicts with.
    #[derive(Parser, Debug)]
    struct Typed {
        #[arg(long, default_value = "a-model")]
        model: String,
        #[command(flatten)]
        shape: ShapeOptions,
    }

    fn parse(arguments: &str) -> Result<ShapeOptions, clap::Error> {
        let words = arguments.split_whitespace();
        Typed::try_parse_from(std::iter::once("measure").chain(words)).map(|typed| typed.shape)
    }

    #[test]
    fn every_shape_and_format_is_known_by_its_name() {
        for shape in KnownShape::ALL {
            let typed = parse(&format!("--shape {} --random-weights", shape.name)).unwrap();
            assert_eq!((typed.shape, typed.weights), (Some(shape), WeightFormat::Bf16));
        }
        let typed = parse("--shape llama3-8b --random-weights --weights q4_k").unwrap();
        assert_eq!(typed.weights, WeightFormat::Q4K);
        assert_eq!(parse("").unwrap().shape, None);
    }

    #[test]
    fn a_shape_says_that_its_weights_are_random() {
        for wrong in [
            "--shape llama3-8b",
            "--random-weights",
            "--weights f32",
            "--shape llama3-8b --random-weights --model other",
            "--shape llama3-9b --random-weights",
            "--shape llama3-8b --random-weights --weights q5_1",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
