//! The options of a bench.

use lexopt::{Arg, Error, Parser, ValueExt};
use std::str::FromStr;

/// Reads the command line: `take` gets the name of each option and reads its value, or says `false` to a
/// name that it does not know. `--help` prints `help` and ends the program, as a wrong option does with
/// exit code 2.
pub fn read(help: &str, mut take: impl FnMut(&str, &mut Parser) -> Result<bool, Error>) {
    if let Err(error) = all(help, &mut take) {
        eprintln!("error: {error}\n\n{help}");
        std::process::exit(2);
    }
}

fn all(
    help: &str,
    take: &mut impl FnMut(&str, &mut Parser) -> Result<bool, Error>,
) -> Result<(), Error> {
    let mut parser = Parser::from_env();
    while let Some(found) = parser.next()? {
        let name = match found {
            Arg::Long("help") | Arg::Short('h') => {
                println!("{help}");
                std::process::exit(0);
            }
            // Cargo passes it to every bench.
            Arg::Long("bench") => continue,
            Arg::Long(name) => name.to_owned(),
            other => return Err(other.unexpected()),
        };
        if !take(&name, &mut parser)? {
            return Err(Error::UnexpectedOption(format!("--{name}")));
        }
    }
    Ok(())
}

/// The value of an option.
pub fn value<T: FromStr>(parser: &mut Parser) -> Result<T, Error>
where
    T::Err: Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
{
    parser.value()?.parse()
}

/// Values with commas between them.
pub fn list<T: FromStr>(parser: &mut Parser) -> Result<Vec<T>, Error>
where
    T::Err: Into<Box<dyn std::error::Error + Send + Sync + 'static>>,
{
    let text = parser.value()?.string()?;
    let parts = text.split(',').map(std::ffi::OsString::from);
    parts.map(|part| part.parse()).collect()
}

/// Ends the program with exit code 2 if a value of an option is none of the names that there are.
pub fn known(option: &str, asked: &[String], names: &[&str]) {
    if let Some(unknown) = asked.iter().find(|asked| !names.contains(&asked.as_str())) {
        eprintln!("error: --{option} {unknown}: expected {}", names.join(", "));
        std::process::exit(2);
    }
}
