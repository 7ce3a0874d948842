package import Testing

extension Trait where Self == TimeLimitTrait {
    /// Ends a test that hangs. A quarter of an hour, because the time in which a test waits for its turn behind the others counts:
    /// what a shorter limit finds is a busy machine.
    package static var endsIfItHangs: Self { .timeLimit(.minutes(15)) }
}
