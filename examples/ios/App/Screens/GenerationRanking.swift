import CampanileClient
import UIKit

/// The ranking of one generation, a screen of the app's own: `home/soptamp/current-generation-ranking?currentGeneration=33`.
struct GenerationRanking: DeepLinkScreen {
    static let path = "home/soptamp/current-generation-ranking"
    let generation: Int

    init(_ values: DeepLinkValues) throws { generation = try values.query("currentGeneration") }

    func show(in coordinator: Shell, animated: Bool) {
        coordinator.push(GenerationRankingViewController(generation), animated: animated)
    }
}

final class GenerationRankingViewController: UIViewController {
    private let generation: Int

    init(_ generation: Int) {
        self.generation = generation
        super.init(nibName: nil, bundle: nil)
        title = "Ranking"
    }

    @available(*, unavailable, message: "there is no storyboard")
    required init?(coder: NSCoder) { nil }

    override func viewDidLoad() {
        super.viewDidLoad()
        view.backgroundColor = .systemBackground
        let label = UILabel()
        label.text = "The ranking of generation \(generation)"
        label.font = .preferredFont(forTextStyle: .headline)
        label.translatesAutoresizingMaskIntoConstraints = false
        view.addSubview(label)
        NSLayoutConstraint.activate([
            label.centerXAnchor.constraint(equalTo: view.centerXAnchor),
            label.topAnchor.constraint(equalTo: view.safeAreaLayoutGuide.topAnchor, constant: 32),
        ])
    }
}
