/// A fault, in a sentence for the operator at the terminal or of the configuration. Throw it if code only shows it; an
/// error on which code branches has its own type.
package struct OperatorError: Error, Equatable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }
}
