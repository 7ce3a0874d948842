/// Refuses a text that somebody wrote: a sentence, or the end of one that begins with the text's name, for whoever wrote it.
package struct Mistake: Error, Hashable, Sendable, CustomStringConvertible {
    package let sentence: String

    package init(_ sentence: String) { self.sentence = sentence }

    package var description: String { sentence }
}
