"""What every program is measured with."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Load:
    threads: int
    # Read in one go, and what stands before the output in a deep decode.
    prompt_tokens: int
    new_tokens: int
    streams: int
    stream_prompt_tokens: int
    # Runs within one measurement; the median counts.
    repeats: int

    def measures(self):
        """Keys of the rates that a program gives, and what each is, in tokens a second."""
        new, prompt, streams = self.new_tokens, self.prompt_tokens, self.streams
        return {
            "prefill": f"prefill of {prompt} tokens",
            "decode_empty": f"decode of {new} from an empty context",
            "decode_deep": f"decode of {new} after {prompt}",
            "streams": f"{streams} streams over HTTP, in total",
            "streams_decoding": f"{streams} streams, while all decode",
        }
