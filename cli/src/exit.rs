//! What the process ends with: fixed numbers that scripts can rely on.

use std::process::ExitCode;

/// How a command ended. The numbers follow BSD's `sysexits.h` where that has one, and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// 0: it was done.
    Ok,
    /// 1: it failed while it ran, or nobody has answered a request yet.
    Failure,
    /// 64: the command line is not understood.
    Usage,
    /// 65: what was given contradicts itself or fits several things.
    BadInput,
    /// 66: there is no such job, decision, action or folder of data.
    NotFound,
    /// 77: it is understood, and refused.
    Refused,
    /// 78: the configuration, or the data that it points to, cannot be used.
    Configuration,
    /// 130: Ctrl-C.
    Interrupted,
}

impl Exit {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failure => 1,
            Self::Usage => 64,
            Self::BadInput => 65,
            Self::NotFound => 66,
            Self::Refused => 77,
            Self::Configuration => 78,
            Self::Interrupted => 130,
        }
    }

    /// How a command line ends that clap does not hand on: asked for help it is a success.
    #[must_use]
    pub fn of_clap(error: &clap::Error) -> Self {
        if error.exit_code() == 0 { Self::Ok } else { Self::Usage }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_is_a_success_and_a_wrong_flag_is_not() {
        let ended = |line: &[&str]| Exit::of_clap(&clap::Command::new("weir").try_get_matches_from(line).unwrap_err());
        assert_eq!(ended(&["weir", "--help"]), Exit::Ok);
        assert_eq!(ended(&["weir", "--unheard-of"]).code(), 64);
    }
}
