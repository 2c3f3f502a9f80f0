//! `terrace chat`: a conversation in the terminal.

use std::io::{self, BufRead, IsTerminal, Write};

use anyhow::{Context, Result, bail};
use clap::Args;
use terrace_engine::text::{
    GenerationConfig, LanguageModel, Prompt, TextFinish, TextRequest, TextStream,
};
use terrace_model::{Message, RenderOptions};
use tokio::sync::mpsc;

use crate::open_model;
use crate::options::{EngineOptions, SamplingOptions, start_quiet_log};

const HELP: &str = "/reset forgets the conversation, /exit (or Ctrl-D) leaves, Ctrl-C stops a \
                    response";

/// Talk to a model in this terminal.
///
/// Responses appear token by token. Ctrl-C stops one, and leaves while none is being decoded. From
/// a pipe, each line is one message, and the responses go to standard output.
#[derive(Args, Debug)]
#[command(after_long_help = "Inside:
  /reset   forget the conversation so far
  /exit    leave (or Ctrl-D)

Examples:
  terrace chat
  terrace chat --system 'You answer in one sentence.' --do-sample --temperature 0.7
  echo 'What is the capital of France?' | terrace chat")]
pub struct ChatArgs {
    /// System message before the conversation. Left out: the chat template's own.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,

    #[command(flatten)]
    sampling: SamplingOptions,
    #[command(flatten)]
    engine: EngineOptions,
}

pub fn run(args: &ChatArgs) -> Result<()> {
    start_quiet_log();
    let model = open_model::open(&args.engine)?;
    if model.chat_template().is_none() {
        bail!("{} has no chat template; use `terrace generate`", model.name());
    }
    let chat = Chat {
        model,
        generation: args.sampling.generation(),
        system: args.system.clone(),
        messages: Vec::new(),
        is_terminal: io::stdin().is_terminal(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the chat's runtime")?.block_on(chat.talk())
}

struct Chat {
    model: LanguageModel,
    generation: GenerationConfig,
    system: Option<String>,
    /// Without the system's.
    messages: Vec<Message>,
    is_terminal: bool,
}

impl Chat {
    async fn talk(mut self) -> Result<()> {
        let mut lines = read_lines();
        if self.is_terminal {
            println!("{}: {HELP}", self.model.name());
        }
        loop {
            if self.is_terminal {
                print!("> ");
                io::stdout().flush()?;
            }
            let line = tokio::select! {
                line = lines.recv() => line,
                _ = tokio::signal::ctrl_c() => None,
            };
            match line.as_deref().map(str::trim) {
                None => break,
                Some("/exit" | "/quit") => return Ok(()),
                Some("") => {}
                Some("/reset") => self.messages.clear(),
                Some(command) if command.starts_with('/') => println!("{HELP}"),
                Some(text) => self.respond(text).await?,
            }
        }
        if self.is_terminal {
            // The prompt's line has no end yet.
            println!();
        }
        Ok(())
    }

    async fn respond(&mut self, text: &str) -> Result<()> {
        self.messages.push(Message::text("user", text));
        let mut stream = match self.submit() {
            Ok(stream) => stream,
            Err(error) if self.is_terminal => {
                self.messages.pop();
                println!("{error:#}; /reset starts anew");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let output = print_output(&mut stream).await?;
        self.messages.push(Message::text("assistant", &output));
        Ok(())
    }

    fn submit(&self) -> Result<TextStream> {
        let template = self.model.chat_template().expect("checked at the start");
        let system = self.system.iter().map(|text| Message::text("system", text));
        let messages: Vec<_> = system.chain(self.messages.iter().cloned()).collect();
        let options = RenderOptions::next_message();
        let prompt = Prompt::Rendered(template.render(&messages, &options)?);
        Ok(self.model.submit(TextRequest::new(prompt, self.generation.clone()))?)
    }
}

/// Prints the output as it comes, until its end or Ctrl-C; dropping the stream then cancels it.
async fn print_output(stream: &mut TextStream) -> Result<String> {
    let mut output = String::new();
    let mut out = io::stdout();
    loop {
        let event = tokio::select! {
            event = stream.next() => event,
            _ = tokio::signal::ctrl_c() => None,
        };
        let Some(event) = event else { break };
        output.push_str(&event.text);
        out.write_all(event.text.as_bytes())?;
        out.flush()?;
        if let Some(TextFinish::Failed(failure)) = event.finish {
            return Err(failure.into());
        }
    }
    writeln!(out)?;
    Ok(output)
}

/// Lines of standard input, read by a thread of their own so that Ctrl-C is heard meanwhile.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
