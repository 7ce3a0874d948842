class PagesController < ApplicationController
  def documented = render(inline: "<p>Page <%= request.path %></p>", layout: "documented")

  def show
    render(inline: '<% content_for :title, "Orders" %><% content_for :back, "/home" %><p>Page <%= request.path %></p>', layout: true)
  end
end
