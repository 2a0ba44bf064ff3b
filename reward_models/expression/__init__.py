"""Progress and success by expressions that somebody, or a language model, wrote: checked, never run as code."""
