/// What is wrong, in a sentence for the person at the terminal or behind the configuration. Thrown where no code does
/// anything about it but show it; where code branches, an error has a type of its own.
package struct OperatorError: Error, Equatable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
